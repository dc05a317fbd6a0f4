// zip_archive reads a zip file with libzip. PyTorch stores tensors in zip files uncompressed, so
// that ranges of a member can be read.
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

#include <parallel/core/file.hpp>

namespace mpt::hf {

/// A zip file, open for reading. Reading is const and may be done by several threads.
class zip_archive {
 public:
  /// The most members that a file may have; a model has a few for each tensor.
  static constexpr std::int64_t max_members = 1 << 20;

  /// A file in the archive.
  struct member {
    std::string name;
    std::uint64_t bytes = 0;
    bool is_stored = false;  ///< neither compressed nor encrypted, so that ranges can be read
  };

  /// Opens `path` and reads its list of members. Throws when the file is no complete zip file.
  explicit zip_archive(std::filesystem::path path);

  [[nodiscard]] std::string const& name() const { return path_.native(); }
  [[nodiscard]] std::vector<member> const& members() const { return members_; }
  /// The member of this name, or null.
  [[nodiscard]] member const* find(std::string const& name) const;

  /// The content of a member, verified by its checksum. A member of more than `max_bytes` is
  /// refused before memory is allocated.
  [[nodiscard]] std::string read_all(member const& entry, std::uint64_t max_bytes) const;

  /// Fills `out` from byte `begin` of a stored member on.
  void read(member const& entry, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  struct closer {
    void operator()(zip_t* archive) const;
    void operator()(zip_file_t* file) const;
  };

  void open(member const& entry) const;
  void close() const;
  void read_opened(std::span<std::byte> out) const;

  std::filesystem::path path_;
  std::unique_ptr<zip_t, closer> archive_;
  std::vector<member> members_;
  std::unordered_map<std::string, std::size_t> index_by_name_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<zip_file_t, closer> opened_;
  mutable member const* opened_member_ = nullptr;
};

}  // namespace mpt::hf
