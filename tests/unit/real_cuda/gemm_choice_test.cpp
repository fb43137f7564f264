// The choice of algorithms for products: the same on a cold device and a warm one, in each process
// and from its file.
#include <sys/resource.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "real/cuda/device.hpp"
#include "real/cuda/gemm/algorithm_file.hpp"
#include "real/cuda/gemm/gemm.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/fakes/behaviour.hpp"
#include "tests/gpu/fakes/fake_cublaslt.hpp"

namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file() const { return (path_ / "deeper/choices.txt").string(); }

 private:
  fs::path path_ = fs::temp_directory_path() / "stepcast-gemm-choices";
};

class Times {
 public:
  explicit Times(std::function<std::int64_t(int)> times) {
    fakes::set_behaviour({});
    fakes::set_product_times(std::move(times));
  }
  ~Times() { fakes::set_product_times({}); }
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;
};

// Prepares a product in a library handle of its own, as another process would, and runs it.
// Returns the algorithm that ran.
int algorithm_of(const std::string& file, std::int64_t tokens = 4, int device = 30) {
  REQUIRE(cudaSetDevice(device) == cudaSuccess);
  const real::DeviceMemory workspace{real::gemm_workspace, "a test"};
  const real::DeviceMemory memory{4096, "a test"};
  std::memset(memory.at(0), 0, 4096);
  const real::DeviceStream stream{real::DeviceStream::Priority::normal};
  real::Gemms gemms{workspace.at(0), file};
  const real::GemmShape shape{
      .dtype = sim::DType::fp32, .output = sim::DType::fp32, .tokens = tokens, .in = 4, .out = 4};
  const real::GemmOperands operands{
      .first = memory.at(0), .second = memory.at(1024), .result = memory.at(2048)};
  const auto& plan = gemms.prepare(shape, operands, stream.get());
  gemms.run(plan, operands, stream.get());
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  return fakes::products_run().back();
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in{file};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  return lines;
}

std::int64_t steady(int algorithm) {
  return std::vector<std::int64_t>{2'000'000, 1'000'000, 1'100'000}.at(
      static_cast<std::size_t>(algorithm));
}

}  // namespace

TEST_CASE("a clock that rises while products are measured does not choose one", "[real_cuda]") {
  std::atomic<int> launches{0};
  const Times times{[&](int algorithm) {
    const double cold = 1 + 4 * std::exp(-launches++ / 4.0);
    return static_cast<std::int64_t>(static_cast<double>(steady(algorithm)) * cold);
  }};
  for (int i = 0; i < 3; ++i) {
    launches = 0;
    CHECK(algorithm_of({}) == 1);
  }
}

TEST_CASE("algorithms that are equally fast leave the choice to the library's order",
          "[real_cuda]") {
  const Times times{[](int algorithm) { return 100'000'000 - 100'000 * algorithm; }};
  CHECK(algorithm_of({}) == 0);
}

TEST_CASE("a choice is written once and taken by whoever comes later", "[real_cuda]") {
  const Folder folder;
  std::atomic<int> fastest{1};
  const Times times{[&](int algorithm) { return algorithm == fastest ? 1'000'000 : 9'000'000; }};
  CHECK(algorithm_of(folder.file()) == 1);
  fastest = 2;
  const std::size_t before = fakes::products_run().size();
  CHECK(algorithm_of(folder.file()) == 1);
  CHECK(fakes::products_run().size() == before + 1);  // nothing was measured
  CHECK(algorithm_of(folder.file(), 5) == 2);         // another shape
  const std::vector<std::string> lines = lines_of(folder.file());
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[1], Catch::Matchers::StartsWith(
                           "played by the CPU, 1 SMs; driver 13000; cuBLASLt 130000; "
                           "forward of a linear with 4 tokens, 4 inputs, 4 outputs") &&
                           Catch::Matchers::EndsWith("algorithm 1, tile 1, stages 1, split-K 1"));
  // The file says nothing of another driver.
  fakes::set_behaviour({.driver = 13010});
  CHECK(algorithm_of(folder.file()) == 2);
  fakes::set_behaviour({});
}

TEST_CASE("ranks that want a choice at once make it once", "[real_cuda]") {
  const Folder folder;
  const Times times{steady};
  std::vector<std::thread> ranks;
  std::vector<std::string> failures(4);
  std::atomic<int> made{0};
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([&, rank] {
      real::AlgorithmFile file{folder.file()};
      const auto choose = [&] {
        ++made;
        return real::ChosenAlgorithm{.algorithm = {1}, .microseconds = 1, .description = "it"};
      };
      try {
        (void)file.get(
            "a product", [](const auto&) { return true; }, choose);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
  CHECK(made == 1);
  CHECK(failures == std::vector<std::string>(4));
}

TEST_CASE("a line that was cut short is told and chosen anew, another file is refused",
          "[real_cuda]") {
  const Folder folder;
  const Times times{steady};
  CHECK(algorithm_of(folder.file()) == 1);
  std::vector<std::string> lines = lines_of(folder.file());
  std::ofstream{folder.file()} << lines[0] << "\n" << lines[1].substr(0, 120);
  real::AlgorithmFile file{folder.file()};
  const auto refuse = [](const real::ChosenAlgorithm&) { return false; };
  (void)file.get("another", refuse, [] { return real::ChosenAlgorithm{.description = "it"}; });
  const std::vector<std::string> notes = file.take_notes();
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::Matchers::StartsWith(folder.file() + ":2: not a chosen product"));
  CHECK(algorithm_of(folder.file()) == 1);
  lines = lines_of(folder.file());
  CHECK(lines.size() == 4);  // the head, what was cut short, another, chosen anew

  // An algorithm that the library does not take is chosen anew, too.
  std::string changed = lines[3];
  changed.replace(changed.find('\t') + 1, 16, "0123456789abcdef");
  changed.replace(changed.find(" 00000000616c676f"), 17, " 0000000000000000");
  std::ofstream{folder.file()} << lines[0] << "\n" << changed << "\n";
  CHECK(algorithm_of(folder.file()) == 1);
  CHECK(lines_of(folder.file()).size() == 3);

  std::ofstream{folder.file()} << "model: gpt\n";
  REQUIRE_THROWS_WITH(algorithm_of(folder.file()),
                      folder.file() +
                          ": its first line is not \"stepcast: chosen products, 1\" (the file of "
                          "chosen products; STEPCAST_GEMM_CACHE names another place, or off)");
}

TEST_CASE("where no more can be written, the choices that were there stay whole", "[real_cuda]") {
  const Folder folder;
  const Times times{steady};
  CHECK(algorithm_of(folder.file()) == 1);
  const std::vector<std::string> lines = lines_of(folder.file());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{fs::file_size(folder.file()) + 10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  CHECK_THROWS_WITH(algorithm_of(folder.file(), 5),
                    Catch::Matchers::StartsWith(folder.file() + ": cannot write " + folder.file() +
                                                ": File too large (the file of chosen products"));
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(lines_of(folder.file()) == lines);
}

TEST_CASE("the place of the choices is the user's", "[real_cuda]") {
  const char* const before = std::getenv("STEPCAST_GEMM_CACHE");
  const std::string kept = before == nullptr ? "" : before;
  (void)setenv("STEPCAST_GEMM_CACHE", "/somewhere/choices", 1);
  CHECK(real::algorithm_file_of_user() == "/somewhere/choices");
  (void)setenv("STEPCAST_GEMM_CACHE", "off", 1);
  CHECK(real::algorithm_file_of_user().empty());
  (void)unsetenv("STEPCAST_GEMM_CACHE");
  (void)setenv("XDG_CACHE_HOME", "/cache", 1);
  CHECK(real::algorithm_file_of_user() == "/cache/stepcast/gemm-choices.txt");
  (void)unsetenv("XDG_CACHE_HOME");
  if (before != nullptr) (void)setenv("STEPCAST_GEMM_CACHE", kept.c_str(), 1);
}
