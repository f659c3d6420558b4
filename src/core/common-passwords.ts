/**
 * Rules for new passwords, and the commonest ones that are refused. Pure, and offline: what people
 * type is told to nobody.
 */

/** Those of at least eight characters that lists of leaked passwords hold most often. */
const commonest = new Set(
  `12345678 123456789 1234567890 12345678910 123456789a 123123123 11111111 00000000 87654321
  88888888 987654321 0987654321 1q2w3e4r 1q2w3e4r5t 1qaz2wsx 1qazxsw2 qazwsxedc zaq12wsx qwertyui
  qwertyuiop qwerty123 qwerty12 qwerty1234 qwer1234 asdfghjk asdfghjkl asdf1234 zxcvbnm1 zxcvbnm123
  abcd1234 abcdefgh abcdefg1 abc12345 a1b2c3d4 aa123456 a1234567 a12345678 password password1
  password12 password123 password1234 passw0rd p@ssw0rd p@ssword pass1234 passwort passwort1
  motdepasse contraseña changeme changeme1 changeme123 letmein1 letmein123 welcome1 welcome123
  iloveyou iloveyou1 sunshine sunshine1 princess princess1 football football1 baseball baseball1
  basketball superman superman1 batman123 starwars starwars1 pokemon1 pokemon123 dragon123
  monkey123 master123 shadow123 michael1 jennifer jordan23 trustno1 whatever computer internet
  samsung1 computer1 mercedes corvette maverick midnight hello123 helloworld test1234 testtest
  testing123 admin123 admin1234 administrator root1234 rootroot toor1234 guest123 user1234 secret123
  secretpassword default1 letmeinnow blink182 babygirl babygirl1 chocolate chocolate1 butterfly
  liverpool liverpool1 chelsea1 arsenal1 barcelona realmadrid juventus metallica slipknot nirvana1
  elephant flower123 freedom1 charlie1 daniel123 matthew1 anthony1 alexander christian nicholas
  benjamin jonathan victoria elizabeth samantha patricia spongebob scooby123 mustang1 harley123
  yankees1 cowboys1 steelers lakers24 november december september october1 summer2020 summer2021
  summer2022 summer2023 summer2024 summer2025 winter2020 winter2021 winter2022 winter2023 winter2024
  winter2025 spring2024 spring2025 autumn2024 autumn2025 99999999 55555555 66666666 77777777
  22222222 12341234 11223344 112233445566 13131313 69696969 147258369 159753159 741852963 789456123
  123654789 123qweasd 123qwe123 1234qwer 12qwaszx q1w2e3r4 q1w2e3r4t5 1g2w3e4r gwerty123 zxcvbnma
  correcthorsebatterystaple einsora1 einsora123 einsoraeinsora`.split(/\s+/),
);

export const password_bounds = { least: 8, most: 1024 } as const;

/** One way of writing it, so that the same characters typed on two machines are the same. */
export function normalPassword(text: string): string {
  return text.normalize('NFC');
}

/** Why this may not be a new password of this user, or null. */
export function passwordProblem(text: string, user_name: string): string | null {
  const password = normalPassword(text);
  const { length } = [...password];
  const { least, most } = password_bounds;
  if (length < least) return `it has ${length} characters, ${least} are the fewest`;
  if (length > most) return `it has ${length} characters, ${most} are the most`;
  const plain = password.toLowerCase();
  if (commonest.has(plain)) return 'it is one of the commonest there are';
  if (new Set(plain).size <= 2) return 'it is one or two characters repeated';
  if (plain === user_name.toLowerCase()) return "it is the user's name";
  return null;
}
