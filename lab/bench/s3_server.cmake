# A bucket in memory, which bucket_bench and scripts/campaign soak save into.
if(NOT TARGET s3_server)
  add_executable(s3_server ${PROJECT_SOURCE_DIR}/lab/bench/s3_server.cpp
                           ${PROJECT_SOURCE_DIR}/tests/support/s3_objects.cpp
                           ${PROJECT_SOURCE_DIR}/tests/support/s3_server.cpp)
  target_include_directories(s3_server PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(s3_server PRIVATE cairn)
  cairn_target_flags(s3_server)
endif()
