// The rendezvous: who is let in, who is turned away, and who is named when he does not come.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "real/net/handshake.hpp"
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

Address loopback_at(int port) {
  return {.family = 4, .port = static_cast<std::uint32_t>(port), .bytes = {127, 0, 0, 1}};
}
Deadline soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds{60};
}

const std::vector<std::string> two_joined(2, "joined");

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
    const Address address = loopback_at(listener.port);
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

TEST_CASE("who does not know the secret is not heard, and knows why", "[net]") {
  const Listener listener = listen_on_loopback();
  std::vector<std::string> ends(4);
  std::atomic<int> turned_away{0};
  on_ranks(4, [&](int i) {
    const bool stranger = i == 2 || i == 3;
    TcpWorld world{.rank = i == 0 ? 0 : 1,
                   .size = 2,
                   .master_port = listener.port,
                   .listener = i == 0 ? listener.socket : -1,
                   .secret = stranger ? std::string(static_cast<std::size_t>(i - 2), 'x') : "a"};
    // The real one comes once the strangers have been seen off.
    while (i == 1 && turned_away < 2)
      std::this_thread::yield();
    try {
      const auto transport = join_tcp_world(world);
      ends[static_cast<std::size_t>(i)] = "joined";
    } catch (const std::exception& error) {
      ends[static_cast<std::size_t>(i)] = error.what();
      ++turned_away;
    }
  });
  const std::string text = "127.0.0.1:" + std::to_string(listener.port) +
                           " does not know the secret of this job: another job listens there, or "
                           "its secret is another one";
  CHECK(ends == std::vector<std::string>{"joined", "joined", text, text});
}

TEST_CASE("a rank that lies about its proof gets no seat", "[net]") {
  const Listener listener = listen_on_loopback();
  Moved answered = Moved::all;
  std::vector<std::string> ends(2);
  on_ranks(2, [&](int rank) {
    TcpWorld world{.rank = rank, .size = 2, .master_port = listener.port, .secret = "a"};
    if (rank == 0) world.listener = listener.socket;
    if (rank == 1) {
      const std::optional<Socket> liar = connect_to(loopback_at(listener.port), soon());
      const Greeting greeted = greeting();
      Challenge challenge;
      send_all(*liar, bytes_of_value(greeted), soon());
      receive_all(*liar, bytes_of_value(challenge), soon());
      // No proof, and the hello of rank 1 of 2 of this job.
      std::vector<std::byte> answer(sizeof(Proof) + 16 + 256);
      answer[sizeof(Proof)] = std::byte{1};
      answer[sizeof(Proof) + 4] = std::byte{2};
      send_all(*liar, answer, soon());
      std::byte reply{};
      answered = receive_all(*liar, {&reply, 1}, soon());
      if (answered != Moved::closed) return;
    }
    const auto transport = join_tcp_world(world);
    ends[static_cast<std::size_t>(rank)] = "joined";
  });
  CHECK(answered == Moved::closed);
  CHECK(ends == two_joined);
}

TEST_CASE("hundreds of connections that say nothing keep nobody out", "[net]") {
  const Listener listener = listen_on_loopback();
  std::vector<std::string> ends(2);
  Moved oldest = Moved::late;
  on_ranks(2, [&](int rank) {
    TcpWorld world{.rank = rank, .size = 2, .master_port = listener.port};
    if (rank == 0) world.listener = listener.socket;
    world.clock = [] { return Deadline{}; };  // nobody's time is ever over
    std::vector<std::optional<Socket>> idle;
    for (int i = 0; rank == 1 && i < 300; ++i)
      idle.push_back(connect_to(loopback_at(listener.port), soon()));
    // The oldest makes room for those behind it.
    std::byte reply{};
    if (rank == 1) oldest = receive_all(*idle.front(), {&reply, 1}, soon());
    const auto transport = join_tcp_world(world);
    ends[static_cast<std::size_t>(rank)] = "joined";
  });
  CHECK(oldest == Moved::closed);
  CHECK(ends == two_joined);
}

TEST_CASE("one that sends a byte now and then is closed when its time is over", "[net]") {
  const Listener listener = listen_on_loopback();
  std::atomic<std::int64_t> hours{0};
  std::vector<std::string> ends(2);
  on_ranks(2, [&](int rank) {
    TcpWorld world{.rank = rank, .size = 2, .master_port = listener.port};
    if (rank == 0) world.listener = listener.socket;
    if (rank == 0) world.clock = [&] { return Deadline{} + std::chrono::hours{hours}; };
    if (rank == 1) {
      const std::optional<Socket> slow = connect_to(loopback_at(listener.port), soon());
      const Greeting greeted;
      const auto bytes = bytes_of_value(greeted);
      std::byte reply{};
      Moved moved = Moved::late;
      for (std::size_t i = 0; moved == Moved::late; ++i, ++hours) {
        if (i + 1 < bytes.size()) send_all(*slow, bytes.subspan(i, 1), soon());
        moved = receive_all(*slow, {&reply, 1}, std::chrono::steady_clock::now() + milliseconds{9});
      }
    }
    const auto transport = join_tcp_world(world);
    ends[static_cast<std::size_t>(rank)] = "joined";
  });
  CHECK(ends == two_joined);
}

TEST_CASE("without a free descriptor the oldest stranger makes room", "[net]") {
  const Listener listener = listen_on_loopback();
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();  // strangers, then rank 1, with descriptors of their own
  if (child == 0) {
    std::vector<std::optional<Socket>> idle;
    for (int i = 0; i < 40; ++i)
      idle.push_back(connect_to(loopback_at(listener.port), soon()));
    ::write(ends[1], "x", 1);
    const auto transport = join_tcp_world({.rank = 1, .size = 2, .master_port = listener.port});
    ::_exit(transport == nullptr ? 1 : 0);
  }
  char done = 0;
  REQUIRE(::read(ends[0], &done, 1) == 1);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{static_cast<rlim_t>(::dup(0)) + 8, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK_NOTHROW(join_tcp_world({.rank = 0, .size = 2, .listener = listener.socket}));
  setrlimit(RLIMIT_NOFILE, &before);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("only the loopback interface has names that need no secret", "[net]") {
  for (const char* name : {"localhost", "127.0.0.1", "127.9.9.9", "::1"})
    CHECK(is_loopback_name(name));
  for (const char* name : {"127.example.com", "10.0.0.1", "node01", "0.0.0.0", "::", ""})
    CHECK_FALSE(is_loopback_name(name));
}
