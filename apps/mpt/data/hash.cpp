#include <mpt/data/hash.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <xxhash.h>

namespace mpt::data {
namespace {

template <class Word>
[[nodiscard]] std::string hex_of(Word value) {
  std::string out;
  for (int shift = static_cast<int>(sizeof value) * 8 - 4; shift >= 0; shift -= 4)
    out += "0123456789abcdef"[(value >> shift) & 15U];
  return out;
}

/// Pads the message as in FIPS 180-4, section 5.1.1, and calls `visit` for each 64-byte block of
/// big-endian words.
template <class Block>
void for_each_sha_block(std::string_view message, Block const& visit) {
  auto const bytes = message.size();
  std::size_t const blocks = (bytes + 8) / 64 + 1;
  for (std::size_t block_index = 0; block_index < blocks; ++block_index) {
    std::array<std::uint32_t, 16> words{};
    for (std::size_t i = 0; i < 64; ++i) {
      std::size_t const position = block_index * 64 + i;
      std::uint64_t byte = 0;
      if (position < bytes)
        byte = static_cast<unsigned char>(message[position]);
      else if (position == bytes)
        byte = 0x80;
      else if (block_index + 1 == blocks && i >= 56)
        byte = ((static_cast<std::uint64_t>(bytes) * 8) >> (8 * (63 - i))) & 255U;
      words[i / 4] |= static_cast<std::uint32_t>(byte) << (24 - 8 * (i % 4));
    }
    visit(words);
  }
}

[[nodiscard]] std::string sha1(std::string_view message) {
  std::array<std::uint32_t, 5> state{0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U,
                                     0xc3d2e1f0U};
  for_each_sha_block(message, [&](std::array<std::uint32_t, 16> const& block) {
    std::array<std::uint32_t, 80> w{};
    for (std::size_t t = 0; t < 80; ++t)
      w[t] = t < 16 ? block[t] : std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    auto [a, b, c, d, e] = state;
    for (std::size_t t = 0; t < 80; ++t) {
      std::uint32_t mix = b ^ c ^ d;
      std::uint32_t constant = t < 40 ? 0x6ed9eba1U : 0xca62c1d6U;
      if (t < 20) {
        mix = (b & c) | (~b & d);
        constant = 0x5a827999U;
      } else if (t >= 40 && t < 60) {
        mix = (b & c) | (b & d) | (c & d);
        constant = 0x8f1bbcdcU;
      }
      auto const next = std::rotl(a, 5) + mix + e + constant + w[t];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d, state[4] + e};
  });
  std::string out;
  for (auto const word : state) out += hex_of(word);
  return out;
}

constexpr std::array<std::uint32_t, 64> sha256_constants{
    0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U,
    0xab1c5ed5U, 0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU,
    0x9bdc06a7U, 0xc19bf174U, 0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU,
    0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU, 0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U,
    0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U, 0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU,
    0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U, 0xa2bfe8a1U, 0xa81a664bU,
    0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U, 0x19a4c116U,
    0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
    0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U,
    0xc67178f2U};

[[nodiscard]] std::string sha256(std::string_view message) {
  std::array<std::uint32_t, 8> state{0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                                     0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
  for_each_sha_block(message, [&](std::array<std::uint32_t, 16> const& block) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t t = 0; t < 64; ++t) {
      if (t < 16) {
        w[t] = block[t];
        continue;
      }
      auto const low = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      auto const high = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + low + w[t - 7] + high;
    }
    auto s = state;
    for (std::size_t t = 0; t < 64; ++t) {
      auto const sum1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
      auto const choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
      auto const first = s[7] + sum1 + choice + sha256_constants[t] + w[t];
      auto const sum0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
      auto const second = sum0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) state[i] += s[i];
  });
  std::string out;
  for (auto const word : state) out += hex_of(word);
  return out;
}

}  // namespace

bool is_known_hash(std::string_view algorithm) {
  for (std::string_view const known :
       {"xxh32", "xxh64", "xxh3_64", "xxh128", "xxh3_128", "sha1", "sha256"})
    if (algorithm == known) return true;
  return false;
}

std::string hash_of(std::string_view algorithm, std::string_view bytes) {
  if (algorithm == "xxh32") return hex_of(XXH32(bytes.data(), bytes.size(), 0));
  if (algorithm == "xxh64") return hex_of(XXH64(bytes.data(), bytes.size(), 0));
  if (algorithm == "xxh3_64") return hex_of(XXH3_64bits(bytes.data(), bytes.size()));
  if (algorithm == "xxh128" || algorithm == "xxh3_128") {
    auto const value = XXH3_128bits(bytes.data(), bytes.size());
    return hex_of(value.high64) + hex_of(value.low64);
  }
  if (algorithm == "sha1") return sha1(bytes);
  if (algorithm == "sha256") return sha256(bytes);
  parallel::fail("hash '", algorithm,
                 "' is not known here; choose among xxh32, xxh64, xxh3_64, xxh128, sha1, sha256");
}

bool has_known_hash(std::map<std::string, std::string> const& digests) {
  return std::ranges::any_of(digests, [](auto const& entry) { return is_known_hash(entry.first); });
}

std::string hash_difference(std::map<std::string, std::string> const& digests,
                            std::string_view bytes) {
  for (auto const& [algorithm, digest] : digests)
    if (is_known_hash(algorithm))
      if (auto const found = hash_of(algorithm, bytes); found != digest)
        return parallel::concat(algorithm, " is ", found, ", index.json says ", digest);
  return {};
}

}  // namespace mpt::data
