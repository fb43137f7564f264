# CUDA for real/cuda: found, or left out with one line.
#   -DSTEPCAST_CUDA=AUTO|ON|OFF            ON: an error if something is missing
#   -DCMAKE_CUDA_ARCHITECTURES=90          which GPUs (90: H100, H200)
#   -DSTEPCAST_CUDA_ROOT=/usr/local/cuda   where the toolkit and the headers of cuBLASLt and NCCL lie
# Sets STEPCAST_HAVE_CUDA, or STEPCAST_CUDA_LEFT_OUT to the reason. Nothing needs a GPU or a driver to build and link.
# The runtime is linked statically and opens the driver when it is first called; cuBLASLt and NCCL are opened then, too
# (real/cuda/forward.hpp): a program that only forecasts starts without any of them.

set(STEPCAST_CUDA AUTO CACHE STRING "build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE STEPCAST_CUDA PROPERTY STRINGS AUTO ON OFF)
set(STEPCAST_CUDA_ROOT /usr/local/cuda CACHE PATH "where the CUDA toolkit lies")
set(STEPCAST_HAVE_CUDA OFF)

function(stepcast_find_cuda missing)
  find_program(STEPCAST_NVCC nvcc HINTS ${CMAKE_CUDA_COMPILER} ENV CUDACXX
               PATHS ${STEPCAST_CUDA_ROOT}/bin)
  set(include_hints ${STEPCAST_CUDA_ROOT}/include)
  set(library_hints ${STEPCAST_CUDA_ROOT}/lib64 ${STEPCAST_CUDA_ROOT}/lib
                    ${STEPCAST_CUDA_ROOT}/targets/x86_64-linux/lib)
  find_path(STEPCAST_CUDART_INCLUDE cuda_runtime_api.h HINTS ${include_hints})
  find_path(STEPCAST_CUBLASLT_INCLUDE cublasLt.h HINTS ${include_hints})
  find_path(STEPCAST_NCCL_INCLUDE nccl.h HINTS ${include_hints})
  find_library(STEPCAST_CUDART_STATIC cudart_static HINTS ${library_hints})
  set(lacking)
  foreach(part NVCC CUDART_INCLUDE CUDART_STATIC CUBLASLT_INCLUDE NCCL_INCLUDE)
    if(NOT STEPCAST_${part})
      string(TOLOWER ${part} name)
      string(REPLACE "_include" " headers" name ${name})
      list(APPEND lacking ${name})
    endif()
  endforeach()
  string(REPLACE ";" ", " lacking "${lacking}")
  set(${missing} "${lacking}" PARENT_SCOPE)
endfunction()

if(STEPCAST_CUDA STREQUAL "OFF")
  set(STEPCAST_CUDA_LEFT_OUT "configured with STEPCAST_CUDA=OFF")
  message(STATUS "CUDA backend: left out (STEPCAST_CUDA=OFF)")
else()
  stepcast_find_cuda(stepcast_cuda_missing)
  if(stepcast_cuda_missing)
    if(STEPCAST_CUDA STREQUAL "ON")
      message(FATAL_ERROR "STEPCAST_CUDA=ON, but not found: ${stepcast_cuda_missing}")
    endif()
    set(STEPCAST_CUDA_LEFT_OUT "not found when it was configured: ${stepcast_cuda_missing}")
    message(STATUS "CUDA backend: left out (not found: ${stepcast_cuda_missing})")
  else()
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures" FORCE)
    endif()
    set(CMAKE_CUDA_COMPILER ${STEPCAST_NVCC} CACHE FILEPATH "nvcc")
    enable_language(CUDA)
    # CMake 3.25 does not know yet that nvcc 12 and later take C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(STEPCAST_HAVE_CUDA ON)
    add_library(stepcast_cuda_libraries INTERFACE)
    target_include_directories(stepcast_cuda_libraries SYSTEM INTERFACE
      ${STEPCAST_CUDART_INCLUDE} ${STEPCAST_CUBLASLT_INCLUDE} ${STEPCAST_NCCL_INCLUDE})
    find_package(Threads REQUIRED)
    target_link_libraries(stepcast_cuda_libraries INTERFACE
      ${STEPCAST_CUDART_STATIC} Threads::Threads ${CMAKE_DL_LIBS} rt)
    message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures "
                   "${CMAKE_CUDA_ARCHITECTURES}")
  endif()
endif()
