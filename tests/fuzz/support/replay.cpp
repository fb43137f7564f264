// Runs every file that the command line names, itself or by its folder, through a fuzz target, and
// then texts with mistakes made from them. An empty folder is a failure: a corpus that has got lost
// must not look like one that passes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/fuzz/support/mutate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::uint64_t mutations_in_ci = 2000;

struct Seed {
  std::string name, text;
};

// Running is what runs, for whoever looks at it after the end of the program.
struct Running {
  std::string name, kept_at;
  std::string_view text;
} running;

// keep writes the text that runs into a file. Calls only what a signal handler may.
void keep() {
  const int file = ::open(running.kept_at.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  bool whole = ::write(file, running.text.data(), running.text.size()) >= 0;
  for (const std::string_view part : {std::string_view{"FAILED: "}, std::string_view{running.name},
                                      std::string_view{"; the input is kept as "},
                                      std::string_view{running.kept_at}, std::string_view{"\n"}})
    whole = ::write(STDERR_FILENO, part.data(), part.size()) >= 0 && whole;
  ::close(file);
}

extern "C" void keep_and_end(int signal) {
  keep();
  ::raise(signal);  // by its default, which SA_RESETHAND has put back
}

bool runs(const std::string& name, std::string_view text) {
  running = {name, running.kept_at, text};
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    keep();
    return false;
  }
}

std::vector<Seed> read_seeds(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i]))
      files.emplace_back(argv[i]);
    else
      for (const auto& entry : std::filesystem::directory_iterator{argv[i]})
        if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Seed> seeds;
  for (const std::filesystem::path& path : files) {
    std::ifstream file{path, std::ios::binary};
    seeds.push_back({path.string(), {std::istreambuf_iterator<char>{file}, {}}});
  }
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Seed> seeds = read_seeds(argc, argv);
  if (seeds.empty()) {
    std::fprintf(stderr, "no corpus files found\n");
    return 1;
  }
  running.kept_at = (std::filesystem::temp_directory_path() /
                     ("failing-" + std::filesystem::path{argv[0]}.filename().string()))
                        .string();
  struct sigaction action {};
  action.sa_handler = keep_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGILL, SIGTRAP, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGINT, SIGTERM})
    ::sigaction(signal, &action, nullptr);
  auto failures =
      std::ranges::count_if(seeds, [](const Seed& seed) { return !runs(seed.name, seed.text); });
  const fuzz::Draws draws = fuzz::draws(mutations_in_ci);
  for (std::uint64_t i = 0; i < draws.count; ++i) {
    const Seed& from = seeds[i % seeds.size()];
    const std::uint64_t seed = sim::hash_combine(draws.seed, i);
    const std::string text = fuzz::mutated(from.text, seed);
    failures +=
        runs(from.name + " with the mistakes of seed " + std::to_string(seed), text) ? 0 : 1;
  }
  std::printf("%zu inputs, %llu with mistakes, %td failed\n", seeds.size(),
              static_cast<unsigned long long>(draws.count), failures);
  return failures == 0 ? 0 : 1;
}
