# Listed once: for the emulator and for a GPU.
set(STEPCAST_KERNEL_TESTS
  device_array.cpp attention_test.cpp context_test.cpp dropout_test.cpp eight_bit_test.cpp elementwise_test.cpp ends_test.cpp
  experts_test.cpp heads_test.cpp lamb_test.cpp latent_test.cpp norm_test.cpp optimizer_test.cpp)
