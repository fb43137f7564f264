# What `cmake --install` and `cpack` ship: the program and its data, the library with its headers and a CMake
# package, the Python module, the window where there is Qt. The window is a Debian package of its own, so that nothing
# else depends on Qt.
#   find_package(stepcast) then gives the target stepcast::stepcast (include/stepcast/stepcast.hpp).
include(CMakePackageConfigHelpers)

set(stepcast_data ${CMAKE_INSTALL_DATADIR}/stepcast)
set(stepcast_package ${CMAKE_INSTALL_LIBDIR}/cmake/stepcast)
get_property(stepcast_rooms GLOBAL PROPERTY STEPCAST_LIBRARY_ROOMS)

install(TARGETS stepcast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY models topologies scenarios validation data DESTINATION ${stepcast_data} COMPONENT program)

# What the program says of itself: manual pages and completions of shells. Not where it is built for another machine.
if(NOT CMAKE_CROSSCOMPILING)
  set(stepcast_words ${PROJECT_BINARY_DIR}/words)
  file(MAKE_DIRECTORY ${stepcast_words}/man1)
  add_custom_command(OUTPUT ${stepcast_words}/made
    COMMAND ${CMAKE_COMMAND} -E env STEPCAST_DATA=${PROJECT_SOURCE_DIR} $<TARGET_FILE:stepcast> man --to ${stepcast_words}/man1
    COMMAND ${CMAKE_COMMAND} -E env STEPCAST_DATA=${PROJECT_SOURCE_DIR} $<TARGET_FILE:stepcast> completion bash > ${stepcast_words}/stepcast.bash
    COMMAND ${CMAKE_COMMAND} -E env STEPCAST_DATA=${PROJECT_SOURCE_DIR} $<TARGET_FILE:stepcast> completion zsh > ${stepcast_words}/_stepcast
    COMMAND ${CMAKE_COMMAND} -E env STEPCAST_DATA=${PROJECT_SOURCE_DIR} $<TARGET_FILE:stepcast> completion fish > ${stepcast_words}/stepcast.fish
    COMMAND ${CMAKE_COMMAND} -E touch ${stepcast_words}/made
    DEPENDS stepcast VERBATIM)
  add_custom_target(stepcast_words ALL DEPENDS ${stepcast_words}/made)
  install(DIRECTORY ${stepcast_words}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
  install(FILES ${stepcast_words}/stepcast.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    RENAME stepcast COMPONENT program)
  install(FILES ${stepcast_words}/_stepcast DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
  install(FILES ${stepcast_words}/stepcast.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
    COMPONENT program)
endif()

add_library(stepcast_library INTERFACE)
set_target_properties(stepcast_library PROPERTIES EXPORT_NAME stepcast)
target_include_directories(stepcast_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
foreach(room ${stepcast_rooms})
  target_link_libraries(stepcast_library INTERFACE stepcast_${room})
  set_target_properties(stepcast_${room} PROPERTIES EXPORT_NAME ${room})
  install(TARGETS stepcast_${room} EXPORT stepcastTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/stepcast COMPONENT library)
endforeach()
install(TARGETS stepcast_library EXPORT stepcastTargets COMPONENT library)
install(EXPORT stepcastTargets NAMESPACE stepcast:: DESTINATION ${stepcast_package} COMPONENT library)
install(FILES include/stepcast/stepcast.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepcast COMPONENT library)
# Beside the public one, the headers that it includes: `#include "sim/..."`.
install(DIRECTORY sim DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepcast COMPONENT library
  FILES_MATCHING PATTERN "*.hpp" PATTERN "cli" EXCLUDE)

configure_package_config_file(cmake/stepcastConfig.cmake.in ${PROJECT_BINARY_DIR}/stepcastConfig.cmake
  INSTALL_DESTINATION ${stepcast_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stepcastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stepcastConfig.cmake ${PROJECT_BINARY_DIR}/stepcastConfigVersion.cmake
  DESTINATION ${stepcast_package} COMPONENT library)

if(STEPCAST_HAVE_PYTHON)
  set(STEPCAST_PYTHON_DIRECTORY lib/python3/dist-packages CACHE STRING "where the Python module is installed, below the prefix")
  install(TARGETS stepcast_python LIBRARY DESTINATION ${STEPCAST_PYTHON_DIRECTORY}/stepcast COMPONENT program)
  install(DIRECTORY python/stepcast DESTINATION ${STEPCAST_PYTHON_DIRECTORY} COMPONENT program
    FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
endif()

if(STEPCAST_HAVE_QT)
  install(TARGETS stepcast-ui RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT window)
  install(FILES ui/desktop/stepcast-ui.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications COMPONENT window)
  install(FILES ui/desktop/stepcast-ui.svg
    DESTINATION ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps COMPONENT window)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME stepcast)
set(CPACK_PACKAGE_VENDOR "Stepcast")
set(CPACK_PACKAGE_CONTACT "Stepcast maintainers <maintainers@stepcast.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "forecasts what a distributed training step costs on a GPU cluster")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME stepcast)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
if(STEPCAST_HAVE_PYTHON)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "python3, python3-numpy")  # `import stepcast`
endif()
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME stepcast-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "stepcast (= ${PROJECT_VERSION}), libfmt-dev, libyaml-cpp-dev, \
libpugixml-dev, libtbb-dev, libtomlplusplus-dev, nlohmann-json3-dev, libboost-graph-dev, libeigen3-dev, zlib1g-dev, libsqlite3-dev")
if(STEPCAST_HAVE_MPI)
  string(APPEND CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS ", libopenmpi-dev")
endif()
if(STEPCAST_HAVE_QT)
  list(APPEND CPACK_COMPONENTS_ALL window)
  set(CPACK_DEBIAN_WINDOW_PACKAGE_NAME stepcast-ui)
  set(CPACK_DEBIAN_WINDOW_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_WINDOW_DESCRIPTION "Stepcast: the window (under the GPL, version 3 or later)")
  set(CPACK_DEBIAN_WINDOW_PACKAGE_SHLIBDEPS ON)
  # Its data is in the program's package. The icon and the pictures that it writes need Qt's plugins.
  set(CPACK_DEBIAN_WINDOW_PACKAGE_DEPENDS "stepcast (= ${PROJECT_VERSION}), libqt6svg6, fonts-dejavu-core")
endif()
include(CPack)
