// Stands for http_server.cpp in a build without cpp-httplib.
#include <stdexcept>

#include "sim/serve/http_server.hpp"

namespace sim {

bool can_serve() {
  return false;
}

void serve(WebService&, const ServedAt&, const std::stop_token&,
           const std::function<void(int port)>&) {
  throw std::runtime_error{"this build has no server: install libcpp-httplib-dev, and build again"};
}

}  // namespace sim
