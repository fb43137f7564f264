// stepcast serve: forecasts and searches over HTTP, with a page.
#include <fmt/format.h>

#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/train/job_host.hpp"
#include "sim/config/json_scan.hpp"
#include "sim/serve/http_server.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_token = 4096;

struct ServeRequest {
  ServedAt at;
  std::string token_file;
  int forecast_seconds = 60, search_seconds = 600;
};

// The first line of the file. A token that somebody may guess is refused.
std::string token_of(const std::string& file) {
  if (file.empty()) return {};
  std::string token = load_text(file, largest_token);
  token.resize(std::min(token.find_first_of("\r\n"), token.size()));
  if (token.size() < 16)
    throw InputError{SourcePosition{file, 1, 1},
                     "the token has fewer than 16 characters: `openssl rand -hex 16` makes one"};
  return token;
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

ExitCode serve_requests(const ServeRequest& request) {
  const std::string token = token_of(request.token_file);
  if (token.empty() && !is_loopback(request.at.address))
    throw WrongUse{
        fmt::format("{} is seen by other machines: give --token-file FILE", request.at.address)};
  WebService service{token,
                  {.forecast = std::chrono::seconds{request.forecast_seconds},
                   .search = std::chrono::seconds{request.search_seconds}}};
  const Control control = stop_on_signals(true);
  serve(service, request.at, control.stop, [&](int port) {
    print_note(fmt::format("http://{}:{}/ (stop with Ctrl+C)", request.at.address, port));
  });
  return ExitCode::done;
}

}  // namespace

Command serve_command() {
  const auto request = std::make_shared<ServeRequest>();
  return {.name = "serve",
          .help = "forecasts and searches over HTTP, with a page for browsers",
          .options = {{.name = "--port",
                       .into = &request->at.port,
                       .form = "N",
                       .help = "where to listen (8080); 0: any that is free",
                       .check = CountFrom{0, 65535}},
                      {.name = "--address",
                       .into = &request->at.address,
                       .form = "ADDRESS",
                       .help = "of this machine (127.0.0.1: it alone may ask)"},
                      {.name = "--token-file",
                       .into = &request->token_file,
                       .form = "FILE",
                       .help = "its first line is what clients must send; needed for any address "
                               "that others see"},
                      {.name = "--forecast-seconds",
                       .into = &request->forecast_seconds,
                       .form = "N",
                       .help = "longest forecast (60)",
                       .check = CountFrom{1, 86400}},
                      {.name = "--search-seconds",
                       .into = &request->search_seconds,
                       .form = "N",
                       .help = "longest search (600)",
                       .check = CountFrom{1, 86400}}},
          .footer = "Example: stepcast serve --port 8080",
          .run = [request] { return serve_requests(*request); }};
}

}  // namespace sim
