// The service over HTTP.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "sim/serve/web_service.hpp"

namespace sim {

struct ServedAt {
  std::string address = "127.0.0.1";
  int port = 8080;  // 0: any that is free
};

// Whether this build has an HTTP server.
bool can_serve();

// serve() answers until it is told to stop. `ready` is told the port. Throws std::runtime_error
// where it cannot listen there, or where there is no server in this build.
void serve(WebService& service, const ServedAt& at, const std::stop_token& stop,
           const std::function<void(int port)>& ready);

}  // namespace sim
