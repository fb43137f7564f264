// The rendezvous: who is let in, who is turned away, and who is named when he does not come.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "real/net/tcp_socket.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_net/worlds.hpp"

using namespace real;  // NOLINT(google-build-using-namespace): a test
using std::chrono::milliseconds;

namespace {

// The message that joining ends in, on every rank that tries.
std::vector<std::string> join(std::vector<TcpWorld> worlds, int port) {
  std::vector<std::string> ends(worlds.size());
  on_ranks(static_cast<int>(worlds.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    worlds[at].master_port = port;
    try {
      const auto transport = join_tcp_world(worlds[at]);
      ends[at] = "joined";
      // Leave together: a rank that is gone would be in the way of the others' joining.
      std::byte token{};
      for (int other = 0; other < transport->size(); ++other) {
        if (other == transport->rank()) continue;
        const Ticket sent = transport->start_send(other, 0, {&token, 1});
        std::byte got{};
        wait(*transport, transport->start_receive(other, 0, {&got, 1}));
        wait(*transport, sent);
      }
    } catch (const std::exception& error) {
      ends[at] = error.what();
    }
  });
  return ends;
}

}  // namespace

TEST_CASE("rank 0 may open its own port, by name or number, and come last", "[net]") {
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const Listener free = listen_on_loopback();
    ::close(free.socket);
    std::vector<std::string> ends(3);
    on_ranks(3, [&](int rank) {
      if (rank == 0) std::this_thread::sleep_for(milliseconds{60});
      const auto transport = join_tcp_world(
          {.rank = rank, .size = 3, .master_address = host, .master_port = free.port});
      ends[static_cast<std::size_t>(rank)] = "joined";
      std::byte token{};
      if (rank == 0)
        for (const int from : {1, 2})
          wait(*transport, transport->start_receive(from, 0, {&token, 1}));
      else
        wait(*transport, transport->start_send(0, 0, {&token, 1}));
    });
    REQUIRE(ends == std::vector<std::string>(3, "joined"));
  }
}

TEST_CASE("ranks that do not come are named, to all who came", "[net]") {
  const Listener listener = listen_on_loopback();
  const auto world = [&](int rank) {
    return TcpWorld{.rank = rank,
                    .size = 5,
                    .listener = rank == 0 ? listener.socket : -1,
                    .join_timeout = milliseconds{300}};
  };
  const std::string text =
      "ranks 1, 3 and 4 did not come to 127.0.0.1:" + std::to_string(listener.port) +
      " within 0.3 s";
  REQUIRE(join({world(0), world(2)}, listener.port) == std::vector<std::string>{text, text});
}

TEST_CASE("a rank that finds nobody names rank 0", "[net]") {
  const Listener free = listen_on_loopback();
  ::close(free.socket);
  REQUIRE(join({{.rank = 1, .size = 2, .join_timeout = milliseconds{100}}}, free.port)[0] ==
          "rank 0 did not come to 127.0.0.1:" + std::to_string(free.port) + " within 0.1 s");
}

TEST_CASE("strangers are turned away and do not disturb the others", "[net]") {
  const Listener listener = listen_on_loopback();
  const std::string master = "turned away by rank 0 at 127.0.0.1:" + std::to_string(listener.port);
  {
    // A port scanner, a browser, and somebody who says nothing.
    Address address{.family = 4, .port = static_cast<std::uint32_t>(listener.port)};
    address.bytes[0] = 127;
    address.bytes[3] = 1;
    const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds{5};
    const auto browser = connect_to(address, deadline);
    const auto silent = connect_to(address, deadline);
    connect_to(address, deadline);
    REQUIRE(browser.has_value());
    const std::string request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    send_all(*browser, std::as_bytes(std::span{request}), deadline);
    std::vector<std::string> turned(2);
    std::vector<std::string> joined(3);
    on_ranks(5, [&](int i) {
      const std::vector<TcpWorld> worlds{
          {.rank = 0, .size = 3, .listener = listener.socket, .job = "a"},
          {.rank = 1, .size = 3, .job = "a"},
          {.rank = 2, .size = 3, .job = "a"},
          {.rank = 1, .size = 3, .job = "b"},
          {.rank = 1, .size = 4, .job = "a"},
      };
      TcpWorld world = worlds[static_cast<std::size_t>(i)];
      world.master_port = listener.port;
      // The real ones come once the strangers have been seen off.
      if (i == 1 || i == 2) std::this_thread::sleep_for(milliseconds{100});
      try {
        const auto transport = join_tcp_world(world);
        joined[static_cast<std::size_t>(i)] = "joined";
      } catch (const std::exception& error) {
        turned.at(static_cast<std::size_t>(i) - 3) = error.what();
      }
    });
    REQUIRE(joined == std::vector<std::string>(3, "joined"));
    REQUIRE(turned[0] == master + ": rank 1 belongs to another job than \"b\"");
    REQUIRE(turned[1] == master + ": rank 1 expects 4 ranks, rank 0 expects 3");
  }
}

TEST_CASE("a connection that closes without a word names the rank behind it", "[net]") {
  // Rank 1 is a process that leaves as a killed one does: no destructor runs.
  const Listener listener = listen_on_loopback();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto transport = join_tcp_world({.rank = 1, .size = 2, .master_port = listener.port});
    ::_exit(transport == nullptr ? 1 : 0);
  }
  const auto transport = join_tcp_world({.rank = 0, .size = 2, .listener = listener.socket});
  std::byte token{};
  const Ticket ticket = transport->start_receive(1, 0, {&token, 1});
  REQUIRE_THROWS_WITH(wait(*transport, ticket), "rank 1 has closed its connection to rank 0");
  REQUIRE(::waitpid(child, nullptr, 0) == child);
}
