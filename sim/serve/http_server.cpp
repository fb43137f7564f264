#include "sim/serve/http_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <stdexcept>

namespace sim {
namespace {

constexpr int connection_seconds = 10;
constexpr std::size_t request_threads = 8;

WebRequest web_request(const httplib::Request& asked) {
  return {.method = asked.method,
          .path = asked.path,
          .body = asked.body,
          .content_type = asked.get_header_value("Content-Type"),
          .authorization = asked.get_header_value("Authorization"),
          .host = asked.get_header_value("Host"),
          .wants_page = asked.get_header_value("Accept").find("text/html") != std::string::npos};
}

}  // namespace

bool can_serve() {
  return true;
}

void serve(WebService& service, const ServedAt& at, const std::stop_token& stop,
           const std::function<void(int port)>& ready) {
  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool{request_threads}; };
  // Not SO_REUSEPORT, which is its default: two servers would share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_payload_max_length(service.limits().body);
  server.set_read_timeout(connection_seconds);
  server.set_write_timeout(connection_seconds);
  server.set_keep_alive_timeout(connection_seconds);
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"Cache-Control", "no-store"},
                              {"Content-Security-Policy",
                               "default-src 'self' 'unsafe-inline'; img-src 'self' data:; "
                               "frame-ancestors 'self'"}});
  const auto answer = [&service](const httplib::Request& asked, httplib::Response& answered) {
    const WebAnswer made = service.answer(web_request(asked));
    answered.status = made.status;
    answered.set_content(made.body, made.type.c_str());
  };
  server.Get(".*", answer);
  server.Post(".*", answer);
  server.Delete(".*", answer);
  server.Put(".*", answer);
  const int port = at.port > 0 ? (server.bind_to_port(at.address.c_str(), at.port) ? at.port : -1)
                               : server.bind_to_any_port(at.address.c_str());
  if (port < 0)
    throw std::runtime_error{
        fmt::format("cannot listen at {}:{}: is the port in use?", at.address, at.port)};
  const std::stop_callback ends{stop, [&server] { server.stop(); }};
  ready(port);
  server.listen_after_bind();
}

}  // namespace sim
