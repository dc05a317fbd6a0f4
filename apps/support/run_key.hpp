// run_key: what the processes of one run know and nobody else: a file that only its owner can read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace apps {

class run_key {
 public:
  /// Reads the key in `file`. Throws `error` unless it is this user's alone (0600).
  [[nodiscard]] static run_key read(std::filesystem::path const& file);

  /// Reads the key in `file`, which the first who asks makes, whole at once.
  [[nodiscard]] static run_key read_or_make(std::filesystem::path const& file);

  /// HMAC-SHA256 of `text` by this key, 64 hexadecimal digits.
  [[nodiscard]] std::string seal(std::string_view text) const;

 private:
  explicit run_key(std::string secret) : secret_(std::move(secret)) {}
  std::string secret_;
};

/// 16 hexadecimal digits that were never drawn before.
[[nodiscard]] std::string random_name();

/// SHA-256 of a file's bytes, 64 hexadecimal digits.
[[nodiscard]] std::string hash_of_file(std::filesystem::path const& file);

}  // namespace apps
