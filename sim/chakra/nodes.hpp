// The nodes of a Chakra execution trace (MLCommons): one file of each rank, PREFIX.RANK.et.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace sim {

// By the numbers of the schema.
enum class EtType : std::uint8_t {
  invalid = 0,
  metadata = 1,
  memory_load = 2,
  memory_store = 3,
  compute = 4,
  send = 5,
  receive = 6,
  collective = 7,
};

enum class EtCollective : std::uint8_t {
  all_reduce = 0,
  reduce = 1,
  all_gather = 2,
  gather = 3,
  scatter = 4,
  broadcast = 5,
  all_to_all = 6,
  reduce_scatter = 7,
  reduce_scatter_block = 8,
  barrier = 9,
};

struct EtNode {
  std::uint64_t id = 0;
  std::string name{};
  EtType type = EtType::compute;
  std::vector<std::uint64_t> dependencies{};  // of control and of data: ids
  std::uint64_t start_micros = 0;
  std::uint64_t duration_micros = 0;
  bool on_host = false;            // is_cpu_op
  double operations = 0;           // num_ops: floating-point operations
  std::uint64_t tensor_bytes = 0;  // tensor_size: read and written
  // Communication. Bytes of an all-gather are those that a rank gives, of all others those of the
  // whole buffer of a rank: as ASTRA-sim reads them.
  std::optional<EtCollective> collective{};
  std::uint64_t comm_bytes = 0;
  std::optional<std::uint32_t> source{}, destination{};
  std::uint32_t tag = 0;
  std::string group{};             // pg_name; empty: all ranks
  std::vector<bool> dimensions{};  // involved_dim: of the network
  std::string values{};            // of the inputs: process groups, of a metadata node
};

struct EtFile {
  std::string path;
  std::string version;
  std::vector<EtNode> nodes;  // in the order of the file
};

// read_et reads a file, also in gzip. Throws InputError with the number of the message.
EtFile read_et(const std::string& path);
EtFile parse_et(const std::string& content, const std::string& name);

std::string et_text(const EtFile& file);  // its bytes

}  // namespace sim
