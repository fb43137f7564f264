// Exchanges of tokens by the scores of routers: all-to-alls, all-gathers and reduce-scatters of as
// many rows as there are. Who sends says how many first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "real/engine/kernels/routing_table.hpp"
#include "real/host/communication.hpp"

namespace real {

struct TokenExchangeCall {
  sim::CollectiveKind kind = sim::CollectiveKind::all_to_all;
  bool to_experts = true;
  const RoutingTable& table;
  Transport& transport;
  std::span<const int> members;  // world ranks; outlives the exchange
  int position = 0;              // of this rank in it
  std::uint32_t channel = 0;
  std::int64_t row = 0;  // bytes
  std::span<const std::byte> input;
  std::span<std::byte> output;
};
std::unique_ptr<HostExchange> start_token_exchange(const TokenExchangeCall& call);

}  // namespace real
