// The only file that includes MPI.
#define OMPI_SKIP_MPICXX  // the C++ bindings are gone from MPI 3 on
#include <mpi.h>

#include <array>
#include <stdexcept>

#include "sim/distribute/communicator.hpp"

namespace sim {
namespace {

constexpr int only_tag = 0;

class MpiTeam final : public Communicator {
 public:
  MpiTeam() {
    // Calls come from one thread, while others compute.
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &local_size_);
    MPI_Comm_free(&here);
    if (provided < MPI_THREAD_FUNNELED)
      throw std::runtime_error("this MPI does not allow threads (MPI_THREAD_FUNNELED)");
  }
  ~MpiTeam() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  std::string host() const override {
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    return {name.data(), static_cast<std::size_t>(length)};
  }
  void send(int to, const std::string& text) override {
    MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, only_tag, MPI_COMM_WORLD);
  }
  std::optional<Message> poll() override {
    int arrived = 0;
    MPI_Status status{};
    MPI_Iprobe(MPI_ANY_SOURCE, only_tag, MPI_COMM_WORLD, &arrived, &status);
    if (arrived == 0) return std::nullopt;
    int length = 0;
    MPI_Get_count(&status, MPI_CHAR, &length);
    Message message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(length), '\0')};
    MPI_Recv(message.text.data(), length, MPI_CHAR, message.from, only_tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    return message;
  }
  [[noreturn]] void abort(int code) override {
    MPI_Abort(MPI_COMM_WORLD, code);
    std::terminate();  // MPI_Abort does not return
  }

 private:
  int rank_ = 0, size_ = 1, local_size_ = 1;
};

}  // namespace

std::optional<std::string> mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);  // allowed before MPI_Init
  const std::string all{text.data(), static_cast<std::size_t>(length)};
  return all.substr(0, all.find_first_of(",\n"));
}

std::unique_ptr<Communicator> join_mpi() {
  return std::make_unique<MpiTeam>();
}

}  // namespace sim
