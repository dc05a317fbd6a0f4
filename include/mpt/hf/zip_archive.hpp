// zip_archive: reading a zip file by libzip, in which PyTorch keeps tensors uncompressed, so that
// ranges of a member are read where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <zip.h>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::hf {

/// A zip file, open for reading. Reading is const and may be done by several threads.
class zip_archive {
 public:
  /// More members than this are refused; a model has a few for each tensor.
  static constexpr std::int64_t max_members = 1 << 20;

  struct member {
    std::string name;
    std::uint64_t bytes = 0;
    bool stored = false;  // uncompressed, hence read by ranges
  };

  /// Opens `path` and reads its list of members; throws when it is not a whole zip file.
  explicit zip_archive(std::filesystem::path path);

  [[nodiscard]] std::string const& name() const { return path_.native(); }
  [[nodiscard]] std::vector<member> const& members() const { return members_; }
  /// The member of this name, or null.
  [[nodiscard]] member const* find(std::string const& name) const;

  /// All of a member, checked by its checksum; refused, before memory is taken, above `most` bytes.
  [[nodiscard]] std::string read_all(member const& which, std::uint64_t most) const;

  /// Fills `out` from byte `begin` of a stored member on.
  void read(member const& which, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  struct closer {
    void operator()(zip_t* archive) const;
    void operator()(zip_file_t* file) const;
  };

  void open(member const& which) const;
  void close() const;
  void take(std::span<std::byte> out) const;

  std::filesystem::path path_;
  std::unique_ptr<zip_t, closer> archive_;
  std::vector<member> members_;
  std::unordered_map<std::string, std::size_t> by_name_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<zip_file_t, closer> opened_;
  mutable member const* last_ = nullptr;
};

}  // namespace mpt::hf
