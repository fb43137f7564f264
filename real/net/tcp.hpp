// A world of processes joined by TCP: rank 0 listens at the master address, all others announce
// themselves there, and every pair of ranks gets one connection, on which both prove first that
// they know the job's secret. Every rank listens at the interface of the master address only. Any
// launcher that sets rank, size and master address will do. All machines must have the same byte
// order.
//
// Small messages are sent at once and kept by the receiver until they are asked for, large ones
// (over 64 KiB) when they are, so one channel never holds up another. Data moves while its rank
// calls start_*, done() or idle().
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "real/net/transport.hpp"

namespace real {

struct TcpWorld {
  int rank = 0;
  int size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  int listener = -1;  // rank 0: a listening socket to take over, instead of opening master_port
  std::string job{};  // members of another job are turned away; 256 bytes at most
  // secret: every rank must prove to know it before it is heard. Empty: who knows the protocol is
  // let in.
  std::string secret{};
  bool one_machine = false;  // all ranks are on this machine
  std::chrono::milliseconds join_timeout{60'000};
  // A connection whose other end has not proven itself for so long is closed.
  std::chrono::milliseconds guest_time{10'000};
  std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
};

// is_loopback_name tells names that only this machine can mean: localhost, 127.0.0.0/8, ::1.
bool is_loopback_name(const std::string& host);

// A socket that listens on the loopback interface at a free port, for TcpWorld::listener.
struct Listener {
  int socket = -1;  // the caller's to close, or to hand over
  int port = 0;
};
Listener listen_on_loopback();

// Throws RankFailure naming the ranks that did not come, std::runtime_error for socket errors and
// where this process is turned away. A connection that closes while its rank has not ended in order
// makes done() throw RankFailure with that rank, on every rank.
std::unique_ptr<Transport> join_tcp_world(const TcpWorld& world);

}  // namespace real
