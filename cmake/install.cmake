# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: the library, its headers, the CMake package, the command.
include(CMakePackageConfigHelpers)
set(berth_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/berth)

install(TARGETS ${berth_components} EXPORT berthTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/berth TYPE INCLUDE FILES_MATCHING PATTERN *.h)
install(EXPORT berthTargets NAMESPACE berth:: DESTINATION ${berth_package_dir})
if(TARGET berth_command)
    install(TARGETS berth_command)
    install(TARGETS berth_preload DESTINATION ${CMAKE_INSTALL_LIBDIR}/berth)
endif()
if(TARGET berth_command AND TARGET berth_bpf)
    # It names the command by its full path, which is known when it is installed (--prefix).
    install(CODE "
        set(berth_bin_dir \"${CMAKE_INSTALL_BINDIR}\")
        cmake_path(ABSOLUTE_PATH berth_bin_dir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
        configure_file(\"${PROJECT_SOURCE_DIR}/packaging/systemd/berth-agent.service.in\"
            \"${PROJECT_BINARY_DIR}/berth-agent.service\" @ONLY)")
    install(FILES ${PROJECT_BINARY_DIR}/berth-agent.service DESTINATION lib/systemd/system)
endif()

# What the consumer of a static library links, by its pkg-config name.
set(berth_static_needs libmnl liburing)
if(TARGET berth_tls)
    list(APPEND berth_static_needs openssl)
endif()
if(TARGET berth_names)
    list(APPEND berth_static_needs libcares)
endif()
list(JOIN berth_static_needs " " berth_static_needs)
get_target_property(berth_library_type berth TYPE)
configure_package_config_file(cmake/berthConfig.cmake.in berthConfig.cmake
    INSTALL_DESTINATION ${berth_package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(berthConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/berthConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/berthConfigVersion.cmake DESTINATION ${berth_package_dir})
