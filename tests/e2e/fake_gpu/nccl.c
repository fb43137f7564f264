// As much of NCCL as `stepcast doctor` asks for: a version that no release has.
int ncclGetVersion(int *version) {
  *version = 29907;
  return 0;
}
