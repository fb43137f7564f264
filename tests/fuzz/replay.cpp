// Runs every file of the folders named on the command line through a fuzz target. An empty folder
// is a failure: a corpus that has got lost must not look like one that passes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

bool replay(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const std::vector<std::uint8_t> bytes{text.begin(), text.end()};
  try {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), error.what());
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator{argv[i]})
      if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  if (files.empty()) {
    std::fprintf(stderr, "no corpus files found\n");
    return 1;
  }
  const auto failures =
      std::ranges::count_if(files, [](const auto& path) { return !replay(path); });
  std::printf("%zu inputs, %td failed\n", files.size(), failures);
  return failures == 0 ? 0 : 1;
}
