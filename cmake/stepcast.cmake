# One static library per room, so that a forbidden arrow between rooms does not link.

# stepcast_library(ROOM sources... USES rooms PRIVATE targets... COLD NO_PCH)
# COLD: reads and prints, so that its speed does not matter. NO_PCH: has flags of its own.
function(stepcast_library room)
  cmake_parse_arguments(ARG "COLD;NO_PCH" "" "USES;PRIVATE" ${ARGN})
  set(kind HOT)
  if(ARG_COLD)
    set(kind COLD)
  endif()
  string(TOLOWER ${kind} kind_name)
  add_library(stepcast_${room} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(stepcast_${room} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:include/stepcast>)
  target_compile_options(stepcast_${room} PRIVATE ${STEPCAST_${kind}_OPTIONS})
  foreach(use ${ARG_USES})
    target_link_libraries(stepcast_${room} PUBLIC stepcast_${use})
  endforeach()
  target_link_libraries(stepcast_${room} PRIVATE fmt::fmt ${ARG_PRIVATE})
  if(NOT ARG_NO_PCH)
    stepcast_precompiled(stepcast_${room} stepcast_${kind_name}_headers)
  endif()
endfunction()

# stepcast_test(NAME sources... USES rooms...): one Catch2 program, one ctest entry.
function(stepcast_test name)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(test_${name} PRIVATE ${STEPCAST_TEST_OPTIONS})
  target_link_libraries(test_${name} PRIVATE stepcast_test_main)
  stepcast_precompiled(test_${name} stepcast_test_headers)
  foreach(use ${ARG_USES})
    target_link_libraries(test_${name} PRIVATE stepcast_${use})
  endforeach()
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# stepcast_travels(TARGET): looks for libraries in lib/ beside it before those of the system, also for the libraries'
# own needs (DT_RPATH, not DT_RUNPATH): tools/make-travelling-build fills that folder.
function(stepcast_travels target)
  set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/lib")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()
