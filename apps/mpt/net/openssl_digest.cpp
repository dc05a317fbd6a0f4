#include <mpt/net/openssl_digest.hpp>

#include <openssl/evp.h>

#include <array>

#include <parallel/core/error.hpp>

namespace mpt::net {
namespace {

class evp_digest final : public digest {
 public:
  explicit evp_digest(digest_kind kind) : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    auto const* const method = kind == digest_kind::sha1 ? EVP_sha1() : EVP_sha256();
    parallel::require(context_ && EVP_DigestInit_ex(context_.get(), method, nullptr) == 1,
                      "OpenSSL computes no checksum");
  }
  void update(std::string_view bytes) override {
    parallel::require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1,
                      "OpenSSL computes no checksum");
  }
  std::string finish() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned length = 0;
    parallel::require(EVP_DigestFinal_ex(context_.get(), bytes.data(), &length) == 1,
                      "OpenSSL computes no checksum");
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (unsigned i = 0; i < length; ++i) {
      out += digits[bytes[i] >> 4U];
      out += digits[bytes[i] & 15U];
    }
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::unique_ptr<digest> openssl_digest(digest_kind kind) {
  return std::make_unique<evp_digest>(kind);
}

}  // namespace mpt::net
