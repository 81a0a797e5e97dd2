# SPDX-License-Identifier: Apache-2.0
# One interface target that every target of this project links; nothing of it is exported. The
# warnings alone are for what is never sanitized.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(berth_warnings INTERFACE)
add_library(berth_flags INTERFACE)
target_link_libraries(berth_flags INTERFACE berth_warnings)
target_compile_definitions(berth_warnings INTERFACE _GNU_SOURCE)
target_compile_options(berth_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
    -Wold-style-cast -Woverloaded-virtual -Wcast-align)
# gcc 12 warns about "literal" + std::string at -O3 (gcc bug 105651, mended in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(berth_warnings INTERFACE -Wno-restrict -Wno-stringop-overflow)
endif()
if(BERTH_WARNINGS_AS_ERRORS)
    target_compile_options(berth_warnings INTERFACE -Werror)
endif()
if(BERTH_SANITIZE)
    target_compile_options(berth_flags INTERFACE
        -fsanitize=${BERTH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(berth_flags INTERFACE -fsanitize=${BERTH_SANITIZE})
    # The check of an object's type makes a pipe for each type that it has not met. Without a
    # descriptor left, as in the tests of that, it takes the object for a wild one.
    if(BERTH_SANITIZE MATCHES undefined)
        target_compile_options(berth_flags INTERFACE -fno-sanitize=vptr)
    endif()
endif()

# Most of the time that a source takes to compile goes into the headers of the standard library. Not
# by default: each source names what it uses, and only a build without this can tell.
option(BERTH_PRECOMPILE_HEADERS "Precompile what most sources include" OFF)
function(berth_precompile target)
    if(BERTH_PRECOMPILE_HEADERS)
        target_precompile_headers(${target} PRIVATE
            <algorithm> <array> <atomic> <cerrno> <chrono> <cstdint> <cstring> <deque> <expected>
            <functional> <map> <memory> <optional> <set> <span> <string> <string_view> <thread>
            <utility> <vector> <fcntl.h> <netinet/in.h> <poll.h> <sys/socket.h> <unistd.h> ${ARGN})
    endif()
endfunction()
