// A world of processes joined by TCP: rank 0 listens at the master address, all others announce
// themselves there, and every pair of ranks gets one connection. Any launcher that sets rank, size
// and master address will do.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "real/net/transport.hpp"

namespace real {

struct TcpWorld {
  int rank = 0;
  int size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  std::string job;  // strangers with another name are turned away
  std::chrono::seconds join_timeout{60};
};

// Throws RankFailure naming the ranks that did not come, std::runtime_error for socket errors.
// A closed connection makes done() throw RankFailure with the rank at its other end.
std::unique_ptr<Transport> join_tcp_world(const TcpWorld& world);

}  // namespace real
