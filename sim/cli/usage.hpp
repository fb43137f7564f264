// Mistakes on the command line, with the nearest name that exists.
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the name that CLI11 has given it
class App;
class ParseError;
}  // namespace CLI

namespace sim {

std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error,
                             const std::vector<std::string>& arguments);

}  // namespace sim
