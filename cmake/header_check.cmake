# SPDX-License-Identifier: Apache-2.0
# berth_header_check compiles every public header alone, twice in one file, as a user's first
# include would: with the include path that is installed and nothing else.
file(GLOB berth_headers CONFIGURE_DEPENDS
    RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/berth/*.h)
set(berth_header_units)
foreach(header IN LISTS berth_headers)
    string(REPLACE ".h" ".cc" unit ${header})
    set(unit ${PROJECT_BINARY_DIR}/header_check/${unit})
    file(CONFIGURE OUTPUT ${unit} CONTENT
        "#include <${header}>\n#include <${header}> // again: the guard\n" @ONLY)
    list(APPEND berth_header_units ${unit})
endforeach()

add_library(berth_header_check OBJECT EXCLUDE_FROM_ALL ${berth_header_units})
target_include_directories(berth_header_check PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(berth_header_check PRIVATE berth_flags)
