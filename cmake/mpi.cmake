# MPI for sim/distribute: found, or left out with one line.
#   -DSTEPCAST_MPI=AUTO|ON|OFF   ON: an error if it is missing
# Sets STEPCAST_HAVE_MPI. Made for Open MPI; nothing but point-to-point messages is used.

set(STEPCAST_MPI AUTO CACHE STRING "search and sweep under mpirun: AUTO, ON or OFF")
set_property(CACHE STEPCAST_MPI PROPERTY STRINGS AUTO ON OFF)
set(STEPCAST_HAVE_MPI OFF)

if(STEPCAST_MPI STREQUAL "OFF")
  message(STATUS "MPI: left out (STEPCAST_MPI=OFF)")
else()
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(STEPCAST_HAVE_MPI ON)
    message(STATUS "MPI: ${MPI_CXX_VERSION}, ${MPI_CXX_COMPILER}")
  elseif(STEPCAST_MPI STREQUAL "ON")
    message(FATAL_ERROR "STEPCAST_MPI=ON, but MPI was not found (Debian: libopenmpi-dev)")
  else()
    message(STATUS "MPI: left out (not found; Debian: libopenmpi-dev)")
  endif()
endif()
