// Finds the fastest of the algorithms that cuBLASLt proposes for a product, so that it is the same
// one each time: on a device that is warm, in rounds over all of them.
#pragma once

#include <cublasLt.h>

#include <functional>
#include <span>
#include <string>

namespace real {

struct FastestAlgorithm {
  std::size_t index = 0;  // of the candidates
  double microseconds = 0;
};

// `run` puts the product with an algorithm on `stream`. Each candidate is measured once in every
// round, the first one another each time, and its least time counts: a rising clock or a neighbour
// adds time to some rounds only. Among candidates within 1% of each other the library's order
// decides. A process works for half a second before its first measurement: a GPU that was idle
// takes tens of milliseconds to raise its clock. REQUIRES: there are candidates.
FastestAlgorithm fastest_of(std::span<const cublasLtMatmulAlgo_t> candidates,
                            const std::function<void(const cublasLtMatmulAlgo_t&)>& run,
                            cudaStream_t stream);

// "algorithm 66, tile 20, stages 36, split-K 1": numbers of cuBLASLt (cublasLtMatmulTile_t,
// cublasLtMatmulStages_t).
std::string description_of(const cublasLtMatmulAlgo_t& algorithm);

}  // namespace real
