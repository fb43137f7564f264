# Qt for ui: found, or left out with one line.
#   -DSTEPCAST_QT=AUTO|ON|OFF   ON: an error if something is missing
# Sets STEPCAST_HAVE_QT. Qt Charts is under the GPL, so a binary of ui is, too; nothing else links it.

set(STEPCAST_QT AUTO CACHE STRING "build the window, ui: AUTO, ON or OFF")
set_property(CACHE STEPCAST_QT PROPERTY STRINGS AUTO ON OFF)
set(STEPCAST_HAVE_QT OFF)

if(STEPCAST_QT STREQUAL "OFF")
  message(STATUS "Window: left out (STEPCAST_QT=OFF)")
else()
  find_package(Qt6 6.4 QUIET COMPONENTS Core Gui Widgets Charts Svg Test)
  if(Qt6_FOUND)
    set(STEPCAST_HAVE_QT ON)
    message(STATUS "Window: Qt ${Qt6_VERSION}")
  elseif(STEPCAST_QT STREQUAL "ON")
    message(FATAL_ERROR "STEPCAST_QT=ON, but Qt 6.4 with Charts and Svg was not found (Debian: qt6-base-dev "
                        "qt6-charts-dev libqt6opengl6-dev qt6-svg-dev)")
  else()
    message(STATUS "Window: left out (Qt 6.4 with Charts and Svg not found; Debian: qt6-base-dev qt6-charts-dev "
                   "libqt6opengl6-dev qt6-svg-dev)")
  endif()
endif()
