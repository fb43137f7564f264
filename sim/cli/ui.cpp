// stepcast ui: opens the window, which is a program of its own.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "sim/cli/command.hpp"

namespace sim {
namespace {

struct WindowRequest {
  std::string scenario;
  std::vector<std::string> overrides;
};

// Returns only where there is no such program.
void become(const std::string& program, const WindowRequest& request) {
  std::vector<std::string> words{program};
  if (!request.scenario.empty()) words.push_back(request.scenario);
  for (const std::string& set : request.overrides) {
    words.emplace_back("--set");
    words.push_back(set);
  }
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(program.c_str(), arguments.data());
}

ExitCode open_window(const WindowRequest& request) {
  std::error_code none;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", none);
  if (!own.empty()) become((own.parent_path() / "stepcast-ui").string(), request);
  become("stepcast-ui", request);
  throw std::runtime_error(
      "the window, stepcast-ui, is neither beside this program nor in the PATH: `make ui` builds "
      "it "
      "(Qt 6.4 with Charts)");
}

}  // namespace

Command ui_command() {
  const auto request = std::make_shared<WindowRequest>();
  Option scenario = scenario_option(request->scenario);
  scenario.required = false;
  return {.name = "ui",
          .help = "opens the window: what if, choose a layout, validate",
          .options = {scenario, set_option(request->overrides, "")},
          .footer = "Example: stepcast ui scenarios/llama-3.1-405b-16384-h100.yaml",
          .run = [request] { return open_window(*request); }};
}

}  // namespace sim
