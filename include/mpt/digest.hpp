// digest: SHA-1, SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), by OpenSSL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace mpt {

/// The hash functions.
enum class digest_kind { sha1, sha256 };

/// A checksum of bytes that come in pieces.
class digest {
 public:
  explicit digest(digest_kind kind);
  void update(std::string_view bytes);
  /// The checksum in lower-case hexadecimal digits. To be called once, at the end.
  [[nodiscard]] std::string finish();

 private:
  struct release {
    void operator()(::evp_md_ctx_st* context) const;
  };
  std::unique_ptr<::evp_md_ctx_st, release> context_;
};

/// The checksum of `bytes` in lower-case hexadecimal digits.
[[nodiscard]] std::string digest_of(digest_kind kind, std::string_view bytes);

/// The 32 bytes of the HMAC of `text` by `key`.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view text);

}  // namespace mpt
