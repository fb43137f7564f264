// A folder for the records of a suite.
#pragma once

#include <string>

namespace real {

// The folder that is named, made where it is missing; of an empty name a temporary one, which is
// gone with this object. Throws std::runtime_error or std::filesystem::filesystem_error.
class RecordFolder {
 public:
  explicit RecordFolder(const std::string& named);
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  ~RecordFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_;
};

}  // namespace real
