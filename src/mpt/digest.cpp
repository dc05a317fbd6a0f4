#include <mpt/digest.hpp>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <span>

#include <parallel/core/error.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace mpt {

digest::digest(digest_kind kind) : context_(EVP_MD_CTX_new()) {
  auto const* const method = kind == digest_kind::sha1 ? EVP_sha1() : EVP_sha256();
  parallel::require(context_ && EVP_DigestInit_ex(context_.get(), method, nullptr) == 1,
                    "OpenSSL computes no checksum");
}

void digest::update(std::string_view bytes) {
  parallel::require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
                    "OpenSSL computes no checksum");
}

std::string digest::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned length = 0;
  parallel::require(EVP_DigestFinal_ex(context_.get(), bytes.data(), &length) == 1,
                    "OpenSSL computes no checksum");
  return parallel::hexadecimal(std::as_bytes(std::span(bytes).first(length)));
}

void digest::release::operator()(::evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

std::string digest_of(digest_kind kind, std::string_view bytes) {
  digest sum(kind);
  sum.update(bytes);
  return sum.finish();
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned length = 0;
  parallel::require(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                         reinterpret_cast<unsigned char const*>(text.data()), text.size(),
                         bytes.data(), &length) != nullptr,
                    "OpenSSL computes no HMAC");
  return {reinterpret_cast<char const*>(bytes.data()), length};
}

}  // namespace mpt
