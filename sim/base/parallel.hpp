// Independent pieces of work on a few threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "sim/base/control.hpp"

namespace sim {

// Threads for `pieces` pieces of work: those of the control, or one per core; never more than
// pieces.
inline std::size_t threads_for(std::size_t pieces, const Control& control) {
  const std::size_t cores = std::thread::hardware_concurrency();
  const std::size_t wanted =
      control.threads > 0 ? static_cast<std::size_t>(control.threads) : cores;
  return std::max<std::size_t>(1, std::min(pieces, wanted));
}

// Calls piece(i) for i of 0 to pieces - 1, each once, in any order. The first exception ends the
// rest and is thrown again here.
template <class Piece>
void for_each_piece(std::size_t pieces, const Control& control, const Piece& piece) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto work = [&] {
    for (std::size_t i = next++; i < pieces; i = next++) {
      try {
        piece(i);
      } catch (...) {
        const std::scoped_lock lock{failing};
        if (!failure) failure = std::current_exception();
        next = pieces;
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t t = 1; t < threads_for(pieces, control); ++t)
      helpers.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sim
