// Worlds of threads to test with: the same body over both transports.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "real/net/tcp.hpp"
#include "real/net/transport.hpp"

namespace real {

enum class WorldKind { local, tcp };

// Runs `body` on every rank; rethrows what the lowest rank threw.
inline void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  threads.clear();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

inline void on_world(WorldKind kind, int ranks, const std::function<void(Transport&)>& body) {
  if (kind == WorldKind::local) {
    std::vector<std::unique_ptr<Transport>> world = make_local_world(ranks);
    on_ranks(ranks, [&](int rank) {
      // Ends with its thread, as a rank's does.
      const auto transport = std::move(world[static_cast<std::size_t>(rank)]);
      body(*transport);
    });
    return;
  }
  const Listener listener = listen_on_loopback();
  on_ranks(ranks, [&](int rank) {
    const auto transport = join_tcp_world({.rank = rank,
                                           .size = ranks,
                                           .master_port = listener.port,
                                           .listener = rank == 0 ? listener.socket : -1,
                                           .job = "test"});
    body(*transport);
  });
}

}  // namespace real
