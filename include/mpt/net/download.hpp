// download: a file from a server to the disk: continued where it was cut, checked, and put in its
// place only when it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include <mpt/digest.hpp>
#include <mpt/net/http.hpp>

namespace mpt::net {

/// The parameters of a download.
struct network {
  http_client client;
};

/// The hash that a file must have.
struct checksum {
  digest_kind kind = digest_kind::sha256;
  std::string hexadecimal;  ///< small letters
  std::string prefix{};     ///< text that is counted before the file's bytes
};

/// A file on a server that has another size than it should.
class changed_file : public parallel::error {
 public:
  using error::error;
};

/// The properties of a file that are known beforehand.
struct expected_content {
  std::optional<std::uint64_t> size{};
  std::uint64_t max_size = std::numeric_limits<std::uint64_t>::max();
  std::optional<net::checksum> checksum{};
};

/// Called with the number of the file's bytes that are on the disk.
using byte_progress = std::function<void(std::uint64_t bytes)>;

/// Gets the file at request.url into `target`, which appears when it is whole. Until then
/// `target`.incomplete grows, and a later call continues it (with Range; and If-Range where the
/// server gave a strong ETag, noted in `target`.incomplete.etag). One process at a time may do so.
/// Returns the server's last response; unless that succeeded, there is no `target`. Throws where
/// the length or checksum is another, after a second attempt from the beginning.
[[nodiscard]] http_response download(network const& net, http_request const& request,
                                     std::filesystem::path const& target,
                                     expected_content const& expected = {},
                                     byte_progress const& on_bytes = {});

/// The checksum of a file, in hexadecimal digits.
[[nodiscard]] std::string digest_of_file(std::filesystem::path const& file, checksum const& like);

}  // namespace mpt::net
