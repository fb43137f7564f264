# Precompiled headers: of the standard library and fmt, none of ours. One for each set of flags: rooms
# whose speed matters, rooms whose speed does not (read and print), tests (with Catch2).
#   -DSTEPCAST_PCH=OFF   without: shows an #include that is missing

option(STEPCAST_PCH "precompile the headers of the standard library, fmt and Catch2" ON)

set(STEPCAST_WARNINGS -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror)
if(STEPCAST_FUZZERS)
  list(REMOVE_ITEM STEPCAST_WARNINGS -Werror)  # built by Clang; GCC's warnings are the ones that count
endif()
# What ccache needs to know about precompiled headers, by its own documentation.
set(STEPCAST_PCH_OPTIONS)
if(STEPCAST_PCH)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(STEPCAST_PCH_OPTIONS $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(STEPCAST_PCH_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
        ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()

# -ffp-contract=off: the same numbers on every machine, whatever FMA it has.
set(STEPCAST_HOT_OPTIONS ${STEPCAST_PCH_OPTIONS} ${STEPCAST_WARNINGS} -ffp-contract=off)
# In a release: -O3 takes a third longer to compile than -O1.
set(STEPCAST_COLD_OPTIONS ${STEPCAST_HOT_OPTIONS} $<$<CONFIG:Release>:-O1>)

# At -O1, GCC 12 warns of accesses to std::string that are never made.
set(STEPCAST_TEST_OPTIONS ${STEPCAST_COLD_OPTIONS}
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

# Few: a header of 90 MiB takes a second to load, more than half of what a small file takes to compile.
set(STEPCAST_STANDARD_HEADERS algorithm map optional string vector)
list(TRANSFORM STEPCAST_STANDARD_HEADERS REPLACE "(.+)" "<\\1>")

# stepcast_precompiled(TARGET OWNER): TARGET has the flags of OWNER, and uses its precompiled header.
function(stepcast_precompiled target owner)
  if(STEPCAST_PCH)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# The owners. `tests/support` has that of the tests.
function(stepcast_precompile_rooms)
  foreach(kind HOT COLD)
    string(TOLOWER ${kind} name)
    add_library(stepcast_${name}_headers OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
    target_compile_options(stepcast_${name}_headers PRIVATE ${STEPCAST_${kind}_OPTIONS})
    target_link_libraries(stepcast_${name}_headers PRIVATE fmt::fmt)
    target_precompile_headers(stepcast_${name}_headers PRIVATE ${STEPCAST_STANDARD_HEADERS} <fmt/format.h>)
  endforeach()
endfunction()
