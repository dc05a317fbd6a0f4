// run_key: the secret of the processes of one run, in a file that only its owner can read.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace apps {

class run_key {
 public:
  /// Reads the key in `file`. Throws `error` unless this user owns the file and only the owner can
  /// read it (0600). Waits for a file that another process is writing.
  [[nodiscard]] static run_key read(std::filesystem::path const& file,
                                    std::chrono::milliseconds wait = std::chrono::seconds(2));

  /// Reads the key in `file`; the first process that calls this makes the file, atomically.
  [[nodiscard]] static run_key read_or_make(std::filesystem::path const& file);

  /// HMAC-SHA256 of `text` by this key, 64 hexadecimal digits.
  [[nodiscard]] std::string seal(std::string_view text) const;

 private:
  explicit run_key(std::string secret) : secret_(std::move(secret)) {}
  std::string secret_;
};

/// 16 random hexadecimal digits.
[[nodiscard]] std::string random_name();

}  // namespace apps
