# One static library per room, so that a forbidden arrow between rooms does not link.

set(STEPCAST_WARNINGS -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Werror)

# stepcast_library(ROOM sources... USES rooms and targets...)
function(stepcast_library room)
  cmake_parse_arguments(ARG "" "" "USES;PRIVATE" ${ARGN})
  add_library(stepcast_${room} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(stepcast_${room} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:include/stepcast>)
  # -ffp-contract=off: the same numbers on every machine, whatever FMA it has.
  target_compile_options(stepcast_${room} PRIVATE ${STEPCAST_WARNINGS} -ffp-contract=off)
  foreach(use ${ARG_USES})
    target_link_libraries(stepcast_${room} PUBLIC stepcast_${use})
  endforeach()
  target_link_libraries(stepcast_${room} PRIVATE ${ARG_PRIVATE})
endfunction()

# stepcast_test(NAME sources... USES rooms...): one Catch2 program, one ctest entry.
function(stepcast_test name)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(test_${name} PRIVATE ${STEPCAST_WARNINGS} -ffp-contract=off)
  target_link_libraries(test_${name} PRIVATE stepcast_test_main)
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
