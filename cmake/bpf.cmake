# SPDX-License-Identifier: Apache-2.0
# The programs that run in the kernel, an optional component: built where clang, bpftool and libbpf
# are. They are compiled against no kernel's headers (CO-RE), so they load on other kernels too.
pkg_check_modules(libbpf IMPORTED_TARGET libbpf>=1.0)
find_program(BERTH_BPF_CLANG NAMES clang-19 clang DOC "The compiler of the BPF programs")
find_program(BERTH_BPFTOOL bpftool PATHS /usr/sbin /sbin DOC "Makes the skeleton of BPF programs")

set(berth_has_bpf OFF)
if(libbpf_FOUND AND BERTH_BPF_CLANG AND BERTH_BPFTOOL)
    set(berth_has_bpf ON)
endif()

# All that is generated, for who reads the sources without building them (clang-tidy).
add_custom_target(berth_generated)

# berth_bpf_skeleton(TARGET SOURCE): NAME.bpf.c → NAME.skel.h, which TARGET finds.
function(berth_bpf_skeleton target source)
    get_filename_component(name ${source} NAME_WE)
    set(directory ${CMAKE_CURRENT_BINARY_DIR}/bpf)
    set(object ${directory}/${name}.bpf.o)
    set(skeleton ${directory}/${name}.skel.h)
    get_filename_component(source ${source} ABSOLUTE)
    get_filename_component(source_directory ${source} DIRECTORY)
    file(GLOB headers CONFIGURE_DEPENDS ${source_directory}/*.bpf.h)
    file(MAKE_DIRECTORY ${directory})
    # <asm/types.h> lies in a directory for the host's architecture, where clang does not look when
    # it compiles for another one.
    add_custom_command(OUTPUT ${object}
        COMMAND ${BERTH_BPF_CLANG} -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror
            -Wno-unused-parameter -I${PROJECT_SOURCE_DIR}
            -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} -c ${source} -o ${object}
        DEPENDS ${source} ${headers} ${source_directory}/shared.h
        COMMENT "Building BPF object ${name}.bpf.o" VERBATIM)
    add_custom_command(OUTPUT ${skeleton}
        COMMAND sh -c "{ echo '/* NOLINTBEGIN: generated */' && \"$1\" gen skeleton \"$2\" name ${name}_bpf && echo '/* NOLINTEND */'; } > \"$3\""
            sh ${BERTH_BPFTOOL} ${object} ${skeleton}
        DEPENDS ${object}
        COMMENT "Generating ${name}.skel.h" VERBATIM)
    add_custom_target(${target}_skeleton DEPENDS ${skeleton})
    add_dependencies(berth_generated ${target}_skeleton)
    add_dependencies(${target} ${target}_skeleton)
    target_sources(${target} PRIVATE ${skeleton})
    target_include_directories(${target} SYSTEM PRIVATE ${directory})
endfunction()
