#include <mpt/net/remote_folder.hpp>

#include <string>

#include <doctest/doctest.h>

namespace remote_folder_test {

using namespace mpt::net;

std::string url_of(std::string const& address, object_store const& store = {}) {
  return remote_folder(address, store).subfolder("train").request("a b/shard.00000.mds").url;
}

TEST_CASE("remote folder: addresses of files") {
  CHECK(url_of("https://h.example/c4/") == "https://h.example/c4/train/a%20b/shard.00000.mds");
  CHECK(url_of("s3://my-bucket/c4") ==
        "https://my-bucket.s3.us-east-1.amazonaws.com/c4/train/a%20b/shard.00000.mds");
  object_store west;
  west.region = "us-west-2";
  CHECK(url_of("s3://my.bucket/c4/x+y", west) ==
        "https://s3.us-west-2.amazonaws.com/my.bucket/c4/x%2By/train/a%20b/shard.00000.mds");
  object_store own;
  own.endpoint = "http://127.0.0.1:9000/store";
  CHECK(url_of("s3://my-bucket", own) ==
        "http://127.0.0.1:9000/store/my-bucket/train/a%20b/shard.00000.mds");
  CHECK(remote_folder("s3://my-bucket/c4/", {}).subfolder("train").displayed() ==
        "s3://my-bucket/c4/train");
}

TEST_CASE("remote folder: the store is a part of the identity of a folder in it") {
  object_store store;
  store.endpoint = "http://127.0.0.1:9000";
  CHECK(remote_folder("s3://b/c", store).identity() == "s3://b/c of http://127.0.0.1:9000/");
  CHECK(remote_folder("s3://b/c", {}).identity() == "s3://b/c");
  CHECK(remote_folder("http://h/c", store).identity() == "http://h/c");
}

TEST_CASE("remote folder: only an object store's requests are signed") {
  object_store store;
  store.key = aws_key{"us-east-1", "id", "secret", ""};
  CHECK(remote_folder("s3://bucket/c4", store).request("index.json").signing_key.has_value());
  CHECK(!remote_folder("https://h.example/c4", store).request("index.json").signing_key);
  CHECK(!remote_folder("s3://bucket/c4", {}).request("index.json").signing_key);
}

TEST_CASE("remote folder: addresses that are refused") {
  for (std::string const address : {"https://h.example/c4?signature=secret", "s3:///c4"})
    CHECK_THROWS_AS(remote_folder(address, {}), parallel::error);
  for (std::string const address : {"s3://id:secret@bucket/c4", "s3://bucket/c4?key=secret"}) try {
      static_cast<void>(remote_folder(address, {}));
      FAIL("no error");
    } catch (parallel::error const& problem) {
      CHECK(std::string(problem.what()).find("secret") == std::string::npos);
    }
  CHECK(is_downloadable("s3://b/c"));
  CHECK(is_downloadable("HTTPS://b/c"));
  for (std::string const address : {"gs://b/c", "oci://b/c", "/c", "hf://x"})
    CHECK(!is_downloadable(address));
}

TEST_CASE("remote folder: an answer's explanation says what to check") {
  auto const explained = [](int status, std::string const& body, header_list headers,
                            std::string const& address, object_store const& store) {
    http_response response;
    response.status = status;
    response.body = body;
    response.headers = std::move(headers);
    return remote_folder(address, store).explanation(response);
  };
  object_store store;
  CHECK(explained(403, "<Error><Code>AccessDenied</Code>", {}, "s3://b/c", store)
            .find("403 Forbidden (AccessDenied); no key was sent: set AWS_ACCESS_KEY_ID") !=
        std::string::npos);
  CHECK(explained(401, "", {}, "https://h.example/c", {})
            .find("must give these files without a login") != std::string::npos);
  store.key = aws_key{"us-east-1", "id", "secret", ""};
  store.key_source = "AWS_ACCESS_KEY_ID";
  CHECK(explained(403, "", {}, "s3://b/c", store).find("the key of AWS_ACCESS_KEY_ID was sent") !=
        std::string::npos);
  CHECK(explained(403, "<Code>SignatureDoesNotMatch</Code>", {}, "s3://b/c", store)
            .find("check its secret, and AWS_REGION (us-east-1)") != std::string::npos);
  CHECK(explained(301, "", {{"x-amz-bucket-region", "eu-west-1"}}, "s3://b/c", store)
            .find("set AWS_REGION to eu-west-1") != std::string::npos);
  CHECK(explained(404, "<Code>No\x1b[31mSuch", {}, "s3://b/c", store)
            .find("404 Not Found (No); check bucket, prefix and split") != std::string::npos);
  CHECK(explained(404, "", {}, "https://h.example/c", {}).find("check the address and split") !=
        std::string::npos);
  CHECK(explained(503, "", {}, "https://h.example/c", {}).find("try again later") !=
        std::string::npos);
}

}  // namespace remote_folder_test
