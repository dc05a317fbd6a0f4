// openssl_digest: checksums by OpenSSL, for builds that found it (ParallelLM::curl).
#pragma once

#include <memory>

#include <mpt/net/digest.hpp>

namespace mpt::net {

[[nodiscard]] std::unique_ptr<digest> openssl_digest(digest_kind kind);

}  // namespace mpt::net
