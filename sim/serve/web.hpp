// Requests of a client and the server's answers, without the transport.
#pragma once

#include <string>

namespace sim {

struct WebRequest {
  std::string method, path;     // "POST", "/v1/forecast"
  std::string body{};           // JSON
  std::string content_type{};   // "application/json"
  std::string authorization{};  // "Bearer TOKEN"
  std::string host{};           // "localhost:8080"
  bool wants_page = false;      // its Accept names text/html
};

struct WebAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body{};
};

// web_error() is {"error": {"status", "message"}}.
WebAnswer web_error(int status, const std::string& message);

}  // namespace sim
