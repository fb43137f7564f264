// Functions of a library that is opened at first use (shared_library.hpp), under their own names:
// a program that was linked against them in this form needs no file of the library to start.
//   STEPCAST_FORWARD(ncclResult_t, ncclGroupStart, (), ())
// defines ncclGroupStart() as a call of the library's; `library()` in scope gives the library.
// A function that is missing here is an undefined reference when the program is linked.
#pragma once

#include "real/cuda/shared_library.hpp"

#define STEPCAST_FORWARD(result, name, parameters, arguments)                                  \
  result name parameters {                                                                     \
    static const auto function = reinterpret_cast<decltype(&name)>(library().function(#name)); \
    return function arguments;                                                                 \
  }
