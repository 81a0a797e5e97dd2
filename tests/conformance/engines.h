// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/conformance/engine_test.h"

#include <gmock/gmock.h>

#include <string>

/// At the end of a file with TEST_P(Fixture, …): runs them over every engine.
#define BERTH_OVER_EVERY_ENGINE_OF(fixture)                                      \
    INSTANTIATE_TEST_SUITE_P(                                                    \
        Over, fixture,                                                           \
        testing::Values(EngineKind::select, EngineKind::poll, EngineKind::epoll, \
                        EngineKind::io_uring, EngineKind::simulated),            \
        [](const testing::TestParamInfo<EngineKind>& parameter) {                \
            return std::string(to_string(parameter.param));                      \
        })
