// digest: checksums of what is downloaded. openssl_digest.hpp has them by OpenSSL.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mpt::net {

enum class digest_kind { sha1, sha256 };

/// A checksum of bytes that come in pieces.
class digest {
 public:
  digest() = default;
  digest(digest const&) = delete;
  digest& operator=(digest const&) = delete;
  virtual ~digest() = default;
  virtual void update(std::string_view bytes) = 0;
  /// The checksum in hexadecimal digits, small letters. To be called once, at the end.
  [[nodiscard]] virtual std::string finish() = 0;
};

using digest_factory = std::function<std::unique_ptr<digest>(digest_kind)>;

}  // namespace mpt::net
