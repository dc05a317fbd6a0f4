#include <doctest/doctest.h>

#include <cstddef>
#include <mpt/data/hash.hpp>
#include <mpt/data/scratch.hpp>
#include <string>

TEST_CASE("checksums: digests equal those of Python's hashlib and xxhash") {
  using mpt::data::hash_of;
  std::string bytes;
  for (int i = 0; i < 768; ++i) bytes += static_cast<char>(i & 255);
  CHECK(hash_of("xxh32", bytes) == "cdb946b1");
  CHECK(hash_of("xxh64", bytes) == "8e03c838c596036f");
  CHECK(hash_of("xxh3_64", bytes) == "4066a57f4496584a");
  CHECK(hash_of("xxh128", bytes) == "a9ee10cbf43517e44066a57f4496584a");
  CHECK(hash_of("xxh3_128", "") == "99aa06d3014798d86001c324468d497f");
  CHECK(hash_of("xxh32", "") == "02cc5d05");
  CHECK(hash_of("sha1", bytes) == "ac2a264c8ec1f4232a40854e8239bc3a697ab1d2");
  CHECK(hash_of("sha256", bytes) ==
        "f3a25aa93aa2fbba28d79260535bbd6a5eb0fc1c24a8b0f04e12b484c1dfe363");
}

TEST_CASE("checksums: SHA padding is right around the block boundaries") {
  using mpt::data::hash_of;
  auto const sha1 = [](std::size_t count) { return hash_of("sha1", std::string(count, 'a')); };
  auto const sha256 = [](std::size_t count) { return hash_of("sha256", std::string(count, 'a')); };
  CHECK(sha1(0) == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  CHECK(sha1(55) == "c1c8bbdc22796e28c0e15163d20899b65621d65a");
  CHECK(sha1(56) == "c2db330f6083854c99d4b5bfb6e8f29f201be699");
  CHECK(sha1(63) == "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
  CHECK(sha1(64) == "0098ba824b5c16427bd7a1122a5a442a25ec644d");
  CHECK(sha1(119) == "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56");
  CHECK(sha1(120) == "f34c1488385346a55709ba056ddd08280dd4c6d6");
  CHECK(sha256(0) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256(55) == "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(sha256(56) == "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(sha256(64) == "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST_CASE("checksums: an unknown algorithm is an error that names the known ones") {
  CHECK_FALSE(mpt::data::is_known_hash("md5"));
  auto const message = data_test::message_of([] { (void)mpt::data::hash_of("md5", "x"); });
  CHECK(data_test::contains(message, "'md5'"));
  CHECK(data_test::contains(message, "xxh3_64"));
}
