# One static library per room, so that a forbidden arrow between rooms does not link. The files of a room are compiled
# in batches: two thirds of the time of a file alone goes into the headers that it shares with others.
#   -DSTEPCAST_UNITY=OFF   every file on its own (presets dev, debug, asan and tsan): a changed file compiles sooner,
#                          and an #include that is missing shows

option(STEPCAST_UNITY "compile several files of a room as one" ON)
# Files of a batch. Two compilers at once stay within 4 GiB.
set(STEPCAST_BATCH 24)
set(STEPCAST_TEST_BATCH 12)

# stepcast_batch_file(RESULT NAME sources...): a file that includes them. By the path below the root, so that it is the
# same in every checkout.
function(stepcast_batch_file result name)
  set(text "")
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(APPEND text "#include \"${source}\"\n")
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
  set(${result} ${file} PARENT_SCOPE)
endfunction()

# stepcast_batches(RESULT NAME sources...): what is compiled for them: files of batches as equal as can be (25 sources
# are 13 and 12), or the sources themselves.
function(stepcast_batches result name)
  set(compiled ${ARGN})
  list(LENGTH ARGN left)
  if(STEPCAST_UNITY AND left GREATER 1)
    set(compiled)
    math(EXPR batches "(${left} + ${STEPCAST_BATCH} - 1) / ${STEPCAST_BATCH}")
    set(at 0)
    while(batches GREATER 0)
      math(EXPR size "(${left} + ${batches} - 1) / ${batches}")
      list(SUBLIST ARGN ${at} ${size} batch)
      stepcast_batch_file(file ${name}_${batches} ${batch})
      list(APPEND compiled ${file})
      math(EXPR at "${at} + ${size}")
      math(EXPR left "${left} - ${size}")
      math(EXPR batches "${batches} - 1")
    endwhile()
  endif()
  set(${result} ${compiled} PARENT_SCOPE)
endfunction()

# stepcast_test_batches(RESULT NAME sources...): as above, of tests: those whose own names do not meet.
function(stepcast_test_batches result name)
  set(compiled ${ARGN})
  if(STEPCAST_UNITY AND ARGC GREATER 3)
    set(compiled)
    execute_process(COMMAND awk -v most=${STEPCAST_TEST_BATCH} -f ${PROJECT_SOURCE_DIR}/cmake/test_batches.awk ${ARGN}
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE batches COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[0-9]+" batches "${batches}")
    foreach(source batch IN ZIP_LISTS ARGN batches)
      list(APPEND batch_${batch} ${source})
    endforeach()
    list(REMOVE_DUPLICATES batches)
    foreach(batch ${batches})
      stepcast_batch_file(file ${name}_${batch} ${batch_${batch}})
      list(APPEND compiled ${file})
    endforeach()
  endif()
  set(${result} ${compiled} PARENT_SCOPE)
endfunction()

# What GCC says of files of a batch that do not know each other: a local variable may have the name of another file's
# constant (within a file, preset dev looks), and a class of a file is none of a header.
function(stepcast_batch_warnings target)
  if(STEPCAST_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wno-shadow;-Wshadow=local;-Wno-subobject-linkage>")
  endif()
endfunction()

# stepcast_library(ROOM sources... ALONE sources... APART sources... USES rooms PRIVATE targets... COLD NO_PCH)
# ALONE: sources that have properties of their own, or names of others. APART: sources that depend on what is built; the
# batches of the others do not. COLD: reads and prints, so that its speed does not matter. NO_PCH: has flags of its own.
function(stepcast_library room)
  cmake_parse_arguments(ARG "COLD;NO_PCH" "" "ALONE;APART;USES;PRIVATE" ${ARGN})
  set(kind HOT)
  if(ARG_COLD)
    set(kind COLD)
  endif()
  string(TOLOWER ${kind} kind_name)
  stepcast_batches(compiled ${room} ${ARG_UNPARSED_ARGUMENTS})
  stepcast_batches(apart ${room}_apart ${ARG_APART})
  add_library(stepcast_${room} STATIC ${compiled} ${ARG_ALONE} ${apart})
  target_include_directories(stepcast_${room} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:include/stepcast>)
  target_compile_options(stepcast_${room} PRIVATE ${STEPCAST_${kind}_OPTIONS})
  stepcast_batch_warnings(stepcast_${room})
  foreach(use ${ARG_USES})
    target_link_libraries(stepcast_${room} PUBLIC stepcast_${use})
  endforeach()
  target_link_libraries(stepcast_${room} PRIVATE fmt::fmt ${ARG_PRIVATE})
  if(NOT ARG_NO_PCH)
    stepcast_precompiled(stepcast_${room} stepcast_${kind_name}_headers)
  endif()
endfunction()

# stepcast_test(NAME sources... ALONE sources... USES rooms...): one Catch2 program, one ctest entry.
# ALONE: sources that are not compiled together with others.
function(stepcast_test name)
  cmake_parse_arguments(ARG "" "" "ALONE;USES" ${ARGN})
  stepcast_test_batches(compiled test_${name} ${ARG_UNPARSED_ARGUMENTS})
  add_executable(test_${name} ${compiled} ${ARG_ALONE})
  target_compile_options(test_${name} PRIVATE ${STEPCAST_TEST_OPTIONS})
  stepcast_batch_warnings(test_${name})
  target_link_libraries(test_${name} PRIVATE stepcast_test_main)
  stepcast_precompiled(test_${name} stepcast_test_headers)
  foreach(use ${ARG_USES})
    target_link_libraries(test_${name} PRIVATE stepcast_${use})
  endforeach()
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()

# stepcast_test_library(NAME sources... USES rooms...): what the tests of several rooms share.
function(stepcast_test_library name)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  add_library(stepcast_${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_compile_options(stepcast_${name} PRIVATE ${STEPCAST_TEST_OPTIONS})
  target_link_libraries(stepcast_${name} PUBLIC stepcast_test_support PRIVATE Catch2::Catch2 fmt::fmt)
  foreach(use ${ARG_USES})
    target_link_libraries(stepcast_${name} PUBLIC stepcast_${use})
  endforeach()
endfunction()

# stepcast_travels(TARGET): looks for libraries in lib/ beside it before those of the system, also for the libraries'
# own needs (DT_RPATH, not DT_RUNPATH): tools/make-travelling-build fills that folder.
function(stepcast_travels target)
  set_target_properties(${target} PROPERTIES BUILD_RPATH "$ORIGIN/lib")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()
