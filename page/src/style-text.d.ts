/** A style as a text, which the build makes small. */
declare module "*.css" {
  const text: string;
  export default text;
}
