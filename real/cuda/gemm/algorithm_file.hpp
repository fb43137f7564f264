// Which algorithm was chosen for each product, in a file that calibrations, runs and their ranks
// share, so that all of them compute in the same way. CUDA-free.
//
// A line per choice: what was multiplied where, the algorithm, its time, what it is. Lines are only
// added; the last one for a product counts. Choices of other machines stand beside each other.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace real {

struct ChosenAlgorithm {
  std::array<std::uint64_t, 8> algorithm{};  // cublasLtMatmulAlgo_t
  double microseconds = 0;                   // when it was chosen
  std::string description{};                 // "algorithm 66, tile 20, stages 36, split-K 1"
};

class AlgorithmFile {
 public:
  // `path` empty: choices are kept in memory only. Folders are made.
  explicit AlgorithmFile(std::string path) : path_{std::move(path)} {}

  using Accept = std::function<bool(const ChosenAlgorithm&)>;
  using Choose = std::function<ChosenAlgorithm()>;
  // The choice for `key` (no tab, no line break), made by `choose` where there is none that
  // `accept` takes. While one process chooses, others that want the file wait. Throws
  // std::runtime_error for a file that is something else, or cannot be written.
  ChosenAlgorithm get(const std::string& key, const Accept& accept, const Choose& choose);
  // Errors in lines of the file, which are left out; each is told once.
  std::vector<std::string> take_notes();

 private:
  void read();
  void append(const std::string& key, const ChosenAlgorithm& chosen) const;

  std::string path_;
  std::map<std::string, ChosenAlgorithm> choices_;
  std::map<std::size_t, std::string> wrong_;  // lines, by number
  std::vector<std::string> notes_;
};

// The file that the environment names: STEPCAST_GEMM_CACHE, a file, or "off" for none; else
// stepcast/gemm-choices.txt in XDG_CACHE_HOME or ~/.cache. Empty: none.
std::string algorithm_file_of_user();

}  // namespace real
