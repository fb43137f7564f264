// The rendezvous. Every rank but 0 opens a socket of its own, connects to rank 0 and says hello:
// job, rank, size, the port of its socket. When all are there, rank 0 tells everyone where the
// others are, and each rank connects to those below it. Connections to rank 0 are kept.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>

#include "real/net/tcp.hpp"
#include "real/net/tcp_socket.hpp"
#include "real/net/tcp_transport.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

constexpr std::size_t most_job_bytes = 256;
constexpr std::size_t most_text_bytes = 4096;
// "stepcst" and a version: another byte order or another program does not match.
constexpr std::uint64_t magic = 0x7374657063737401;

struct Hello {
  std::uint64_t magic = real::magic;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint32_t port = 0;  // where this rank listens
  std::uint32_t job_bytes = 0;
  std::array<char, most_job_bytes> job{};
};
static_assert(sizeof(Hello) == 24 + most_job_bytes);

enum class Verdict : std::uint32_t { welcome = 1, refused = 2, incomplete = 3 };

struct Reply {
  std::uint64_t magic = real::magic;
  Verdict verdict = Verdict::welcome;
  std::int32_t rank = -1;        // incomplete: the one to blame
  std::uint32_t text_bytes = 0;  // of the reason that follows; welcome: the table follows
  std::uint32_t unused = 0;
};

Hello hello_of(const TcpWorld& world, int port) {
  Hello hello{.rank = world.rank,
              .size = world.size,
              .port = static_cast<std::uint32_t>(port),
              .job_bytes = static_cast<std::uint32_t>(world.job.size())};
  std::copy(world.job.begin(), world.job.end(), hello.job.begin());
  return hello;
}
std::string job_of(const Hello& hello) {
  return {hello.job.data(), std::min<std::size_t>(hello.job_bytes, most_job_bytes)};
}

// "rank 2" or "ranks 2, 3 and 5"; of many the first eight.
std::string names_of(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  std::string text = "ranks";
  const std::size_t shown = std::min<std::size_t>(ranks.size(), 8);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{} {}", i == 0 ? "" : last ? " and" : ",", ranks[i]);
  }
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

std::string seconds_of(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

void send_verdict(const Socket& socket, Verdict verdict, int rank, const std::string& text) {
  // Whoever does not take it within a second is told by the close of its connection.
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds{1};
  const Reply reply{
      .verdict = verdict, .rank = rank, .text_bytes = static_cast<std::uint32_t>(text.size())};
  if (send_all(socket, bytes_of_value(reply), deadline) == Moved::all)
    send_all(socket, std::as_bytes(std::span{text}), deadline);
}

// Takes connections until every rank that is expected has said hello. Nobody can hold it up: hellos
// are read as they come, and strangers are turned away.
class Reception {
 public:
  Reception(const TcpWorld& world, const Socket& listener, int first_expected)
      : world_{world}, listener_{listener}, first_{first_expected} {
    sockets.resize(static_cast<std::size_t>(world.size));
    addresses.resize(static_cast<std::size_t>(world.size));
  }

  // Ranks that have not come by the deadline.
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = first_; rank < world_.size; ++rank)
      if (!sockets[static_cast<std::size_t>(rank)].is_open()) ranks.push_back(rank);
    return ranks;
  }

  bool run(Deadline deadline) {
    while (!missing().empty()) {
      const int left = milliseconds_until(deadline);
      if (left == 0) return false;
      std::vector<pollfd> waiting{{listener_.handle(), POLLIN, 0}};
      for (const Guest& guest : guests_)
        waiting.push_back({guest.socket.handle(), POLLIN, 0});
      if (::poll(waiting.data(), waiting.size(), left) <= 0) continue;
      for (std::size_t i = guests_.size(); i-- > 0;)
        if (waiting[i + 1].revents != 0 && hear(guests_[i]))
          guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
      if (waiting[0].revents == 0) continue;
      if (std::optional<Socket> socket = accept_from(listener_))
        guests_.push_back({.socket = std::move(*socket)});
    }
    return true;
  }

  std::vector<Socket> sockets;     // by rank
  std::vector<Address> addresses;  // where they listen, as seen from here

 private:
  struct Guest {
    Socket socket{};
    Hello hello{};
    std::size_t read = 0;
  };

  // Reads what has come; true: the guest has a seat or was sent away.
  bool hear(Guest& guest) {
    const std::span<std::byte> all = bytes_of_value(guest.hello);
    while (guest.read < all.size()) {
      const ssize_t count = ::recv(guest.socket.handle(), all.data() + guest.read,
                                   all.size() - guest.read, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
      if (count <= 0) return true;
      guest.read += static_cast<std::size_t>(count);
      // Other programs' connections end here.
      if (guest.read >= sizeof guest.hello.magic && guest.hello.magic != magic) return true;
    }
    const std::string problem = problem_with(guest.hello);
    if (!problem.empty()) {
      send_verdict(guest.socket, Verdict::refused, guest.hello.rank, problem);
      return true;
    }
    const auto rank = static_cast<std::size_t>(guest.hello.rank);
    addresses[rank] = peer_of(guest.socket);
    addresses[rank].port = guest.hello.port;
    sockets[rank] = std::move(guest.socket);
    return true;
  }

  std::string problem_with(const Hello& hello) const {
    if (job_of(hello) != world_.job)
      return fmt::format("rank {} belongs to another job than \"{}\"", hello.rank, job_of(hello));
    if (hello.size != world_.size)
      return fmt::format("rank {} expects {} ranks, rank {} expects {}", hello.rank, hello.size,
                         world_.rank, world_.size);
    if (hello.rank < first_ || hello.rank >= world_.size)
      return fmt::format("rank {} is not expected", hello.rank);
    if (sockets[static_cast<std::size_t>(hello.rank)].is_open())
      return fmt::format("there is a rank {} already", hello.rank);
    return "";
  }

  const TcpWorld& world_;
  const Socket& listener_;
  int first_;
  std::vector<Guest> guests_;
};

bool is_local_name(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::vector<Socket> join_as_first(const TcpWorld& world, Deadline deadline) {
  const Socket listener =
      world.listener >= 0
          ? Socket{world.listener}
          : listen_at(world.master_port, is_local_name(world.master_address), world.size);
  Reception reception{world, listener, 1};
  if (!reception.run(deadline)) {
    const std::vector<int> missing = reception.missing();
    const std::string text =
        fmt::format("{} did not come to {}:{} within {}", names_of(missing), world.master_address,
                    world.master_port, seconds_of(world.join_timeout));
    for (const Socket& socket : reception.sockets)
      if (socket.is_open()) send_verdict(socket, Verdict::incomplete, missing[0], text);
    throw RankFailure{missing[0], text};
  }
  for (int rank = 1; rank < world.size; ++rank) {
    const Socket& socket = reception.sockets[static_cast<std::size_t>(rank)];
    const Reply reply{.rank = 0};
    if (send_all(socket, bytes_of_value(reply), deadline) != Moved::all ||
        send_all(socket, std::as_bytes(std::span{reception.addresses}), deadline) != Moved::all)
      throw RankFailure{rank, fmt::format("rank {} has left while the others joined", rank)};
  }
  return std::move(reception.sockets);
}

// Rank 0 may be the last to start.
Socket connect_to_master(const TcpWorld& world, Deadline deadline) {
  while (true) {
    for (const Address& address : resolve(world.master_address, world.master_port))
      if (std::optional<Socket> socket = connect_to(address, deadline)) return std::move(*socket);
    if (milliseconds_until(deadline) == 0)
      throw RankFailure{0,
                        fmt::format("rank 0 did not come to {}:{} within {}", world.master_address,
                                    world.master_port, seconds_of(world.join_timeout))};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
}

// Where every rank listens, from rank 0. Throws what rank 0 has to say instead.
std::vector<Address> table_from(const Socket& master, const TcpWorld& world, Deadline deadline) {
  const auto complain = [&](Moved moved) {
    if (moved == Moved::closed)
      throw RankFailure{0, fmt::format("rank 0 at {} has closed its connection to rank {}",
                                       to_text(peer_of(master)), world.rank)};
    if (moved == Moved::late)
      throw RankFailure{0, fmt::format("rank 0 did not answer rank {} within {}", world.rank,
                                       seconds_of(world.join_timeout))};
  };
  Reply reply;
  complain(receive_all(master, bytes_of_value(reply), deadline));
  if (reply.magic != magic || reply.text_bytes > most_text_bytes)
    throw std::runtime_error{
        fmt::format("{} does not answer as rank 0 of a run", to_text(peer_of(master)))};
  std::string text(reply.text_bytes, ' ');
  complain(receive_all(master, std::as_writable_bytes(std::span{text}), deadline));
  if (reply.verdict == Verdict::refused)
    throw std::runtime_error{
        fmt::format("turned away by rank 0 at {}: {}", to_text(peer_of(master)), text)};
  if (reply.verdict == Verdict::incomplete) throw RankFailure{reply.rank, text};
  std::vector<Address> table(static_cast<std::size_t>(world.size));
  complain(receive_all(master, std::as_writable_bytes(std::span{table}), deadline));
  return table;
}

// Ranks that rank 0 sees on its own machine are on that machine for the others, too.
Address seen_from_here(Address address, const Address& master) {
  if (!address.is_loopback() || master.is_loopback()) return address;
  const std::uint32_t port = address.port;
  address = master;
  address.port = port;
  return address;
}

std::vector<Socket> join_as_other(const TcpWorld& world, Deadline deadline) {
  // Rank 0 gives up by its own clock, and its answer names those who are missing.
  const Deadline patience = deadline + std::chrono::seconds{2};
  Socket master = connect_to_master(world, deadline);
  const Socket listener = listen_at(0, is_local_name(world.master_address), world.size);
  const Hello hello = hello_of(world, static_cast<int>(name_of(listener).port));
  if (send_all(master, bytes_of_value(hello), deadline) != Moved::all)
    throw RankFailure{0, fmt::format("rank 0 at {} has closed its connection to rank {}",
                                     to_text(peer_of(master)), world.rank)};
  const std::vector<Address> table = table_from(master, world, patience);
  const Deadline mesh_deadline = std::chrono::steady_clock::now() + world.join_timeout;
  Reception reception{world, listener, world.rank + 1};
  for (int rank = 1; rank < world.rank; ++rank) {
    const Address address = seen_from_here(table[static_cast<std::size_t>(rank)], peer_of(master));
    std::optional<Socket> socket = connect_to(address, mesh_deadline);
    if (!socket || send_all(*socket, bytes_of_value(hello), mesh_deadline) != Moved::all)
      throw RankFailure{rank, fmt::format("rank {} cannot reach rank {} at {}", world.rank, rank,
                                          to_text(address))};
    reception.sockets[static_cast<std::size_t>(rank)] = std::move(*socket);
  }
  if (!reception.run(mesh_deadline)) {
    const std::vector<int> missing = reception.missing();
    throw RankFailure{missing[0],
                      fmt::format("{} did not connect to rank {} within {}", names_of(missing),
                                  world.rank, seconds_of(world.join_timeout))};
  }
  reception.sockets[0] = std::move(master);
  return std::move(reception.sockets);
}

}  // namespace

Listener listen_on_loopback() {
  // As many as may come before the first is taken; the system caps it.
  Socket socket = listen_at(0, true, 4096);
  const int port = static_cast<int>(name_of(socket).port);
  return {.socket = socket.release(), .port = port};
}

std::unique_ptr<Transport> join_tcp_world(const TcpWorld& world) {
  SIM_CHECK(world.size > 0 && world.rank >= 0 && world.rank < world.size, world.rank, world.size);
  SIM_CHECK(world.job.size() <= most_job_bytes, world.job.size());
  const Deadline deadline = std::chrono::steady_clock::now() + world.join_timeout;
  if (world.size == 1) {
    const Socket unused{world.listener};
    return make_tcp_transport(0, std::vector<Socket>(1));
  }
  return make_tcp_transport(world.rank, world.rank == 0 ? join_as_first(world, deadline)
                                                        : join_as_other(world, deadline));
}

}  // namespace real
